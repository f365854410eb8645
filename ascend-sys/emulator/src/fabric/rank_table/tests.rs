//! Tests with tables of every version, and with wrong tables.

mod fields;

use super::*;
use serde_json::json;

/// Returns a table of version 1.0 with two servers of two devices each.
fn v1() -> Value {
    let device = |rank: u32| json!({"device_id": (rank % 2).to_string(), "device_ip": format!("10.0.0.{rank}"), "rank_id": rank.to_string()});
    json!({
        "version": "1.0", "status": "completed", "server_count": "2",
        "server_list": [
            {"server_id": "node-0", "device": [device(0), device(1)]},
            {"server_id": "node-1", "device": [device(2), device(3)]},
        ],
    })
}

fn v12() -> Value {
    let mut table = v1();
    table["version"] = json!("1.2");
    table["super_pod_list"] = json!([
        {"super_pod_id": "0", "server_list": [{"server_id": "node-0"}]},
        {"super_pod_id": "1", "server_list": [{"server_id": "node-1"}]},
    ]);
    for rank in 0..4 {
        table["server_list"][rank / 2]["device"][rank % 2]["super_device_id"] =
            json!(rank.to_string());
    }
    table
}

fn v2() -> Value {
    let rank = |rank: u32| {
        json!({
            "rank_id": rank, "local_id": rank, "device_id": rank,
            "level_list": [{
                "net_layer": 0, "net_instance_id": "pod", "net_type": "TOPO_FILE_DESC", "net_attr": "",
                "rank_addr_list": [{"addr_type": "EID", "addr": "000000000000000000100000dfdf1234", "ports": ["0/1"], "plane_id": "0"}],
            }],
        })
    };
    json!({"version": "2.0", "rank_count": 2, "rank_list": [rank(0), rank(1)]})
}

fn check(table: &Value) -> Result<RankTable, WrongTable> {
    let product = match table["version"].as_str() {
        Some("2.0") => Product::Ascend950,
        Some("1.2") => Product::A3,
        _ => Product::A2,
    };
    RankTable::check(table, product)
}

#[test]
fn tables_of_every_version_are_read() {
    let ranks = [v1(), v12(), v2()].map(|table| check(&table).unwrap().ranks());
    assert_eq!(ranks, [4, 4, 2]);
    assert_eq!(check(&v1()).unwrap().servers, 2);
    assert_eq!(check(&v2()).unwrap().servers, 1);
    assert!(RankTable::check(&v1(), Product::A3).is_ok());
}

/// Sets the field at a path of keys and indices. A null removes a key.
fn set(table: &mut Value, path: &str, value: Value) {
    let (rest, last) = path.rsplit_once('/').unwrap_or(("", path));
    let rest = if rest.is_empty() { String::new() } else { format!("/{rest}") };
    let parent = table.pointer_mut(&rest).expect("a path that there is");
    match (last.parse::<usize>(), value) {
        (Err(_), Value::Null) => drop(parent.as_object_mut().unwrap().remove(last)),
        (Err(_), value) => parent[last] = value,
        (Ok(at), value) => parent[at] = value,
    }
}

/// The error names each malformed field, with its value and the valid values. A null removes the
/// key.
#[test]
fn each_malformed_field_is_named() {
    let (first, pod) = ("server_list/0/device/0", "super_pod_list/0");
    let level = "rank_list/0/level_list/0";
    let address = &format!("{level}/rank_addr_list/0");
    let f = |at: &str, name: &str| format!("{at}/{name}");
    let cases: Vec<(Value, String, Value, &str, &str)> = vec![
        (
            v1(),
            "version".into(),
            json!("3.0"),
            "EI0014",
            "version is \"3.0\", but must be 1.0, 1.2 or 2.0",
        ),
        (v1(), "version".into(), json!(null), "EI0017", "version is missing"),
        (v1(), "version".into(), json!(1), "EI0014", "version is 1, but must be a text"),
        (v1(), "version".into(), json!("2.0"), "EI0017", "rank_count is missing"),
        (v1(), "group_list".into(), json!([]), "EI0014", "`group_list`, the older form"),
        (v1(), "status".into(), json!("initializing"), "EI0014", "status is \"initializing\""),
        (v1(), "server_count".into(), json!(2), "EI0014", "server_count is 2, but must be a text"),
        (
            v1(),
            "server_count".into(),
            json!("3"),
            "EI0014",
            "server_count is 3, and server_list has 2",
        ),
        (
            v1(),
            "server_count".into(),
            json!("x"),
            "EI0014",
            "server_count is \"x\", but must be a number",
        ),
        (
            v1(),
            "server_list".into(),
            json!({}),
            "EI0014",
            "server_list is an object, but must be a list",
        ),
        (
            v1(),
            "server_list/1/server_id".into(),
            json!("node-0"),
            "EI0014",
            "server_list[1].server_id is \"node-0\", as in another entry",
        ),
        (
            v1(),
            "server_list/0/server_id".into(),
            json!("n".repeat(65)),
            "EI0014",
            "has 65 characters, but must have 1 to 64",
        ),
        (
            v1(),
            "server_list/0/device".into(),
            json!([]),
            "EI0014",
            "server_list[0].device is empty",
        ),
        (
            v1(),
            f(first, "device_id"),
            json!(null),
            "EI0017",
            "server_list[0].device[0].device_id is missing",
        ),
        (
            v1(),
            f(first, "device_id"),
            json!("1"),
            "EI0014",
            "device[1].device_id is 1, as in another entry",
        ),
        (
            v1(),
            f(first, "device_ip"),
            json!("10.0.0"),
            "EI0014",
            "device_ip is \"10.0.0\", but must be an IP address",
        ),
        (
            v1(),
            f(first, "device_ip"),
            json!(null),
            "EI0017",
            "device_ip is missing, which tables of several servers need",
        ),
        (
            v1(),
            f(first, "device_port"),
            json!("0"),
            "EI0014",
            "device_port is 0, but must be 1 to 65535",
        ),
        (
            v1(),
            f(first, "host_port"),
            json!("65536"),
            "EI0014",
            "host_port is 65536, but must be 1 to 65535",
        ),
        (
            v1(),
            "server_list/0/host_ip".into(),
            json!("host"),
            "EI0014",
            "host_ip is \"host\", but must be an IP address",
        ),
        (
            v1(),
            f(first, "rank_id"),
            json!("9"),
            "EI0014",
            "rank_id is 9, but must be below the number of ranks, 4",
        ),
        (v1(), f(first, "rank_id"), json!("1"), "EI0014", "rank_id is 1, as in another entry"),
        (
            v1(),
            f(first, "rank_id"),
            json!("-1"),
            "EI0014",
            "rank_id is \"-1\", but must be a number",
        ),
        (v12(), f(first, "super_device_id"), json!("a"), "EI0014", "super_device_id is \"a\""),
        (
            v12(),
            f(first, "backup_device_ip"),
            json!(7),
            "EI0014",
            "backup_device_ip is 7, but must be a text",
        ),
        (
            v12(),
            f(pod, "super_pod_id"),
            json!("1"),
            "EI0014",
            "super_pod_id is \"1\", as in another entry",
        ),
        (
            v12(),
            f(pod, "server_list/0/server_id"),
            json!("node-7"),
            "EI0014",
            "is \"node-7\", which is not in server_list",
        ),
        (
            v12(),
            f(pod, "server_list/0/server_id"),
            json!("node-1"),
            "EI0014",
            "is \"node-1\", as in another entry",
        ),
        (v2(), "rank_count".into(), json!(0), "EI0014", "rank_count is 0, but must be 1 to 65536"),
        (v2(), "rank_count".into(), json!(3), "EI0014", "rank_count is 3, and rank_list has 2"),
        (
            v2(),
            "rank_list/0/rank_id".into(),
            json!(2),
            "EI0014",
            "rank_id is 2, but must be below the number of ranks, 2",
        ),
        (
            v2(),
            "rank_list/0/rank_id".into(),
            json!(1),
            "EI0014",
            "rank_id is 1, as in another entry",
        ),
        (
            v2(),
            "rank_list/0/rank_id".into(),
            json!(0.5),
            "EI0014",
            "rank_id is 0.5, but must be a number",
        ),
        (
            v2(),
            "rank_list/0/device_id".into(),
            json!(65),
            "EI0014",
            "device_id is 65, but must be 0 to 64",
        ),
        (
            v2(),
            "rank_list/0/device_id".into(),
            json!(1),
            "EI0014",
            "device_id is 1, as in another rank of the server",
        ),
        (
            v2(),
            "rank_list/0/local_id".into(),
            json!(65),
            "EI0014",
            "local_id is 65, but must be 0 to 64",
        ),
        (
            v2(),
            "rank_list/0/device_port".into(),
            json!(0),
            "EI0014",
            "device_port is 0, but must be 1 to 65535",
        ),
        (v2(), "rank_list/0/level_list".into(), json!([]), "EI0014", "level_list is empty"),
        (
            v2(),
            f(level, "net_layer"),
            json!(1),
            "EI0014",
            "net_layer is 1, but the layers must ascend from 0",
        ),
        (v2(), f(level, "net_layer"), json!(8), "EI0014", "net_layer is 8, but must be 0 to 7"),
        (
            v2(),
            f(level, "net_instance_id"),
            json!("i".repeat(1025)),
            "EI0014",
            "has 1025 characters, but must have 1 to 1024",
        ),
        (
            v2(),
            f(level, "net_type"),
            json!("CLOS"),
            "EI0014",
            "net_type is \"CLOS\", but must be TOPO_FILE_DESC",
        ),
        (
            v2(),
            f(level, "rank_addr_list"),
            json!(vec![json!({}); 25]),
            "EI0014",
            "rank_addr_list has 25 entries, but must have 24 at most",
        ),
        (
            v2(),
            f(address, "addr_type"),
            json!("MAC"),
            "EI0014",
            "addr_type is \"MAC\", but must be EID, IPV4 or IPV6",
        ),
        (
            v2(),
            f(address, "addr"),
            json!(""),
            "EI0014",
            "addr has 0 characters, but must have 1 to 256",
        ),
        (
            v2(),
            f(address, "addr_type"),
            json!("IPV4"),
            "EI0014",
            "addr is \"000000000000000000100000dfdf1234\", but must be an IPv4 address",
        ),
        (
            v2(),
            f(address, "ports"),
            json!(vec!["0/1"; 17]),
            "EI0014",
            "ports has 17 entries, but must have 16 at most",
        ),
        (
            v2(),
            f(address, "ports/0"),
            json!("1"),
            "EI0014",
            "ports[0] is \"1\", but must be a die and a port, as 0/1",
        ),
        (v2(), f(address, "ports"), json!(null), "EI0017", "ports is missing"),
    ];
    for (mut table, path, value, report, piece) in cases {
        set(&mut table, &path, value);
        let Err(wrong) = check(&table) else { panic!("{path} is accepted: {table}") };
        assert!(wrong.text.contains(piece), "{piece:?} is not in: {}", wrong.text);
        assert_eq!(wrong.report, report, "{}", wrong.text);
    }
}

#[test]
fn ranks_of_a_server_stand_together() {
    let mut table = v1();
    for (at, rank) in [(0, "0"), (1, "2")] {
        table["server_list"][0]["device"][at]["rank_id"] = json!(rank);
        let other = if rank == "0" { "1" } else { "3" };
        table["server_list"][1]["device"][at]["rank_id"] = json!(other);
    }
    let wrong = check(&table).map(drop).unwrap_err();
    assert!(
        wrong.text.contains("ranks 0 and 2, but the ranks of a server must be consecutive"),
        "{}",
        wrong.text
    );
}

#[test]
fn a_version_is_for_its_products() {
    for (table, product) in [(v1(), Product::Ascend950), (v12(), Product::A2), (v2(), Product::A3)]
    {
        let wrong = RankTable::check(&table, product).map(drop).unwrap_err();
        assert!(wrong.text.contains(&format!("which is not for {product}")), "{}", wrong.text);
    }
}

/// The reader returns a table or an error, whichever value is replaced.
#[test]
fn changed_tables_are_read_or_refused() {
    let mut random = fastrand::Rng::with_seed(5);
    fn places(value: &Value, path: &str, found: &mut Vec<String>) {
        let mut below = |at: String, value| {
            let path = format!("{path}/{at}");
            places(value, &path, found);
            found.push(path);
        };
        match value {
            Value::Array(list) => {
                list.iter().enumerate().for_each(|(at, value)| below(at.to_string(), value));
            }
            Value::Object(map) => map.iter().for_each(|(at, value)| below(at.clone(), value)),
            _ => {}
        }
    }
    for _ in 0..5000 {
        let mut table = [v1(), v12(), v2()][random.usize(0..3)].clone();
        let mut found = Vec::new();
        places(&table, "", &mut found);
        let odd = [
            json!(null),
            json!(-1),
            json!(1e300),
            json!(u64::MAX),
            json!(""),
            json!("0"),
            json!([]),
            json!({}),
            json!([[[]]]),
            json!(true),
            json!("\u{0}"),
            json!("99999999999999999999999"),
            json!([null]),
        ];
        let place = &found[random.usize(0..found.len())];
        *table.pointer_mut(place).unwrap() = odd[random.usize(0..odd.len())].clone();
        for product in [Product::A2, Product::A3, Product::Ascend950] {
            let _ = RankTable::check(&table, product);
        }
    }
}

#[test]
fn a_key_that_is_in_one_object_twice_is_refused_with_its_place() {
    let text = v1().to_string();
    let twice = text.replacen("\"rank_id\":\"0\"", "\"rank_id\":\"0\",\"rank_id\":\"1\"", 1);
    assert_ne!(text, twice);
    let Err(error) = serde_json::from_str::<Unique>(&twice) else { panic!("{twice} is accepted") };
    assert!(error.is_data(), "{error}");
    let error = error.to_string();
    assert!(error.contains("the key \"rank_id\" is in one object twice"), "{error}");
    assert!(error.contains("at line 1 column"), "{error}");
    let Ok(Unique(value)) = serde_json::from_str(&text) else { panic!("{text} is refused") };
    assert_eq!(value, v1());
    // Values of all kinds stay unchanged.
    let all = r#"{"a":[null,true,-1,1,0.5,"x",{"b":{}},18446744073709551615]}"#;
    let Ok(Unique(value)) = serde_json::from_str(all) else { panic!("{all} is refused") };
    assert_eq!(value.to_string(), all);
}

#[test]
fn a_text_that_is_nested_too_deeply_is_refused() {
    let deep = "[".repeat(100_000);
    assert!(serde_json::from_str::<Unique>(&deep).is_err_and(|error| error.is_syntax()));
}

#[test]
fn a_die_and_a_port_are_digits() {
    for (ports, good) in [
        ("0/1", true),
        ("+0/1", false),
        ("0/+1", false),
        ("-0/1", false),
        ("/1", false),
        ("0/", false),
        ("0/1/2", false),
        (" 0/1", false),
        ("0/4294967296", false),
    ] {
        let mut table = v2();
        table["rank_list"][1]["level_list"][0]["rank_addr_list"][0]["ports"] = json!([ports]);
        let checked = check(&table).map(|table| table.ranks());
        match checked {
            Ok(_) => assert!(good, "{ports} is accepted"),
            Err(wrong) => {
                let path = "rank_list[1].level_list[0].rank_addr_list[0].ports[0]";
                let told = wrong.text.contains(path) && wrong.text.contains("as 0/1");
                assert!(!good && told, "{}", wrong.text);
            }
        }
    }
}
