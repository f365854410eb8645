//! Tests that malform each field of each version in each way. The field is missing, of another
//! kind, out of its range, or in conflict with another field.

use super::*;

/// Makes the rows of a test. A row has the table to change, the path of a field and its new value
/// (null removes the field), and the expected error: CANN's code and a piece of the text.
macro_rules! rows {
    ($($table:ident $path:literal = $value:tt => $report:ident $piece:literal;)*) => {
        vec![$(($table(), $path, json!($value), stringify!($report), $piece)),*]
    };
}

fn all_are_told(rows: Vec<(Value, &str, Value, &str, &str)>) {
    for (mut table, path, value, report, piece) in rows {
        set(&mut table, path, value);
        let Err(wrong) = check(&table) else { panic!("{path} is accepted: {table}") };
        assert!(wrong.text.contains(piece), "{piece:?} is not in: {}", wrong.text);
        assert_eq!(wrong.report, report, "{}", wrong.text);
    }
}

/// Returns a table of version 2.0 whose two ranks have a second layer.
fn layered() -> Value {
    let mut table = v2();
    for rank in 0..2 {
        let levels = table["rank_list"][rank]["level_list"].as_array_mut().unwrap();
        let mut second = levels[0].clone();
        second["net_layer"] = json!(1);
        second["net_instance_id"] = json!("all");
        second["net_type"] = json!("CLOS");
        levels.push(second);
    }
    table
}

#[test]
fn of_a_table_of_servers() {
    all_are_told(rows! {
        v1 "status" = null => EI0017 "status is missing";
        v1 "status" = true => EI0014 "status is true, but must be a text";
        v1 "server_count" = null => EI0017 "server_count is missing";
        v1 "server_count" = "0" => EI0014 "server_count is 0, but must be 1 to";
        v1 "server_count" = "" => EI0014 "server_count is \"\", but must be a number";
        v1 "server_count" = "+2" => EI0014 "server_count is \"+2\", but must be a number";
        v1 "server_count" = "99999999999999999999" => EI0014 "server_count is \"99999999999999999999\", but must be a number";
        v1 "server_list" = null => EI0017 "server_list is missing";
        v1 "server_list" = [] => EI0014 "server_list is empty";
        v1 "server_list/1" = "node" => EI0014 "server_list[1] is \"node\", but must be an object";
        v1 "server_list/1/server_id" = null => EI0017 "server_list[1].server_id is missing";
        v1 "server_list/1/server_id" = 1 => EI0014 "server_list[1].server_id is 1, but must be a text";
        v1 "server_list/1/server_id" = "" => EI0014 "server_list[1].server_id has 0 characters, but must have 1 to 64";
        v1 "server_list/1/host_ip" = 1 => EI0014 "server_list[1].host_ip is 1, but must be a text";
        v1 "server_list/1/device" = null => EI0017 "server_list[1].device is missing";
        v1 "server_list/1/device" = {} => EI0014 "server_list[1].device is an object, but must be a list";
        v1 "server_list/1/device/1" = [] => EI0014 "server_list[1].device[1] is a list, but must be an object";
        v1 "server_list/1/device/1/device_id" = 1 => EI0014 "device[1].device_id is 1, but must be a text";
        v1 "server_list/1/device/1/device_id" = "4294967296" => EI0014 "device[1].device_id is 4294967296, but must be 0 to 4294967295";
        v1 "server_list/1/device/1/device_ip" = 7 => EI0014 "device[1].device_ip is 7, but must be a text";
        v1 "server_list/1/device/1/device_ip" = "10.0.0.256" => EI0014 "device_ip is \"10.0.0.256\", but must be an IP address";
        v1 "server_list/1/device/1/device_port" = 5 => EI0014 "device[1].device_port is 5, but must be a text";
        v1 "server_list/1/device/1/device_port" = "65536" => EI0014 "device[1].device_port is 65536, but must be 1 to 65535";
        v1 "server_list/1/device/1/host_port" = "0" => EI0014 "device[1].host_port is 0, but must be 1 to 65535";
        v1 "server_list/1/device/1/backup_device_port" = "x" => EI0014 "device[1].backup_device_port is \"x\", but must be a number";
        v1 "server_list/1/device/1/rank_id" = null => EI0017 "server_list[1].device[1].rank_id is missing";
        v1 "server_list/1/device/1/rank_id" = 3 => EI0014 "device[1].rank_id is 3, but must be a text";
        v1 "server_list/1/device/1/rank_id" = "4" => EI0014 "rank_id is 4, but must be below the number of ranks, 4";
    });
}

#[test]
fn of_a_table_with_superpods() {
    all_are_told(rows! {
        v12 "server_list/0/device/1/super_device_id" = 1 => EI0014 "device[1].super_device_id is 1, but must be a text";
        v12 "server_list/0/device/1/super_device_id" = "4294967296" => EI0014 "super_device_id is 4294967296, but must be 0 to 4294967295";
        v12 "server_list/0/device/1/backup_device_ip" = "::g" => EI0014 "device[1].backup_device_ip is \"::g\", but must be an IP address";
        v12 "server_list/0/device/1/backup_device_port" = "0" => EI0014 "device[1].backup_device_port is 0, but must be 1 to 65535";
        v12 "super_pod_list" = "pods" => EI0014 "super_pod_list is \"pods\", but must be a list";
        v12 "super_pod_list" = [] => EI0014 "super_pod_list is empty";
        v12 "super_pod_list/1" = 1 => EI0014 "super_pod_list[1] is 1, but must be an object";
        v12 "super_pod_list/1/super_pod_id" = null => EI0017 "super_pod_list[1].super_pod_id is missing";
        v12 "super_pod_list/1/super_pod_id" = 1 => EI0014 "super_pod_list[1].super_pod_id is 1, but must be a text";
        v12 "super_pod_list/1/server_list" = null => EI0017 "super_pod_list[1].server_list is missing";
        v12 "super_pod_list/1/server_list" = [] => EI0014 "super_pod_list[1].server_list is empty";
        v12 "super_pod_list/1/server_list/0/server_id" = null => EI0017 "super_pod_list[1].server_list[0].server_id is missing";
        v12 "super_pod_list/1/server_list/0/server_id" = 1 => EI0014 "super_pod_list[1].server_list[0].server_id is 1, but must be a text";
        v12 "super_pod_list" = [{"super_pod_id": "0", "server_list": [{"server_id": "node-0"}]}] => EI0014 "super_pod_list has no superpod for the server \"node-1\"";
    });
}

#[test]
fn of_a_table_with_layers() {
    all_are_told(rows! {
        v2 "rank_count" = null => EI0017 "rank_count is missing";
        v2 "rank_count" = "2" => EI0014 "rank_count is \"2\", but must be a number";
        v2 "rank_count" = 65537 => EI0014 "rank_count is 65537, but must be 1 to 65536";
        v2 "rank_list" = null => EI0017 "rank_list is missing";
        v2 "rank_list" = [] => EI0014 "rank_list is empty";
        v2 "rank_list/1" = 7 => EI0014 "rank_list[1] is 7, but must be an object";
        v2 "rank_list/1/rank_id" = null => EI0017 "rank_list[1].rank_id is missing";
        v2 "rank_list/1/rank_id" = "1" => EI0014 "rank_list[1].rank_id is \"1\", but must be a number";
        v2 "rank_list/1/rank_id" = (-1) => EI0014 "rank_list[1].rank_id is -1, but must be a number";
        v2 "rank_list/1/local_id" = null => EI0017 "rank_list[1].local_id is missing";
        v2 "rank_list/1/local_id" = "1" => EI0014 "rank_list[1].local_id is \"1\", but must be a number";
        v2 "rank_list/1/device_id" = null => EI0017 "rank_list[1].device_id is missing";
        v2 "rank_list/1/device_id" = "1" => EI0014 "rank_list[1].device_id is \"1\", but must be a number";
        v2 "rank_list/1/device_port" = 65536 => EI0014 "rank_list[1].device_port is 65536, but must be 1 to 65535";
        v2 "rank_list/1/device_port" = "1" => EI0014 "rank_list[1].device_port is \"1\", but must be a number";
        v2 "rank_list/1/host_port" = 0 => EI0014 "rank_list[1].host_port is 0, but must be 1 to 65535";
        v2 "rank_list/1/level_list" = null => EI0017 "rank_list[1].level_list is missing";
        v2 "rank_list/1/level_list" = [1, 2, 3, 4, 5, 6, 7, 8, 9] => EI0014 "rank_list[1].level_list has 9 entries, but must have 8 at most";
        v2 "rank_list/1/level_list/0/net_layer" = null => EI0017 "level_list[0].net_layer is missing";
        v2 "rank_list/1/level_list/0/net_layer" = "0" => EI0014 "level_list[0].net_layer is \"0\", but must be a number";
        layered "rank_list/1/level_list/1/net_layer" = 0 => EI0014 "level_list[1].net_layer is 0, but the layers must ascend from 0";
        layered "rank_list/1/level_list/1/net_type" = "RING" => EI0014 "level_list[1].net_type is \"RING\", but must be CLOS or TOPO_FILE_DESC";
        v2 "rank_list/1/level_list/0/net_type" = null => EI0017 "level_list[0].net_type is missing";
        v2 "rank_list/1/level_list/0/net_instance_id" = null => EI0017 "level_list[0].net_instance_id is missing";
        v2 "rank_list/1/level_list/0/net_instance_id" = "" => EI0014 "net_instance_id has 0 characters, but must have 1 to 1024";
        v2 "rank_list/1/level_list/0/rank_addr_list" = null => EI0017 "level_list[0].rank_addr_list is missing";
        v2 "rank_list/1/level_list/0/rank_addr_list" = [] => EI0014 "level_list[0].rank_addr_list is empty";
        v2 "rank_list/1/level_list/0/rank_addr_list/0/addr_type" = null => EI0017 "rank_addr_list[0].addr_type is missing";
        v2 "rank_list/1/level_list/0/rank_addr_list/0/addr_type" = "IPV6" => EI0014 "addr is \"000000000000000000100000dfdf1234\", but must be an IPv6 address";
        v2 "rank_list/1/level_list/0/rank_addr_list/0/addr" = null => EI0017 "rank_addr_list[0].addr is missing";
        v2 "rank_list/1/level_list/0/rank_addr_list/0/addr" = 5 => EI0014 "rank_addr_list[0].addr is 5, but must be a text";
        v2 "rank_list/1/level_list/0/rank_addr_list/0/ports" = [] => EI0014 "rank_addr_list[0].ports is empty";
        v2 "rank_list/1/level_list/0/rank_addr_list/0/ports/0" = 1 => EI0014 "ports[0] is 1, but must be a text";
    });
    assert_eq!(check(&layered()).unwrap().ranks(), 2);
}

#[test]
fn an_ipv6_address_may_have_a_scope() {
    let long = format!("fe80::1%{}", "e".repeat(16));
    for (ip, good) in [
        ("10.0.0.7", true),
        ("fe80::1", true),
        ("fe80::1%eth0", true),
        ("fe80::1%2", true),
        ("::ffff:10.0.0.7", true),
        ("fe80::1%", false),
        ("fe80::1%eth 0", false),
        ("fe80::1%eth0%1", false),
        ("fe80::1%a/b", false),
        (&long, false),
        ("10.0.0.7%eth0", false),
        ("%eth0", false),
        ("[fe80::1]", false),
        ("fe80::1/64", false),
        ("fe80::1 ", false),
        ("10.0.0.07", false),
    ] {
        let mut tables = [v1(), v12(), v2()];
        tables[0]["server_list"][0]["device"][1]["device_ip"] = json!(ip);
        tables[1]["server_list"][0]["host_ip"] = json!(ip);
        let address = &mut tables[2]["rank_list"][0]["level_list"][0]["rank_addr_list"][0];
        let kind = if ip.contains(':') || ip.starts_with('%') { "IPV6" } else { "IPV4" };
        (address["addr_type"], address["addr"]) = (json!(kind), json!(ip));
        for table in tables {
            match check(&table) {
                Ok(_) => assert!(good, "{ip} is accepted"),
                Err(wrong) => {
                    let told = wrong.text.contains(&format!("is \"{ip}\", but must be an IP"));
                    assert!(!good && told, "{ip}: {}", wrong.text);
                }
            }
        }
    }
}

#[test]
fn the_length_of_a_file_is_looked_at_before_it_is_read() {
    let name = format!("hccl-long-table-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let told = |bytes: u64| {
        // The file is sparse, so it takes no disk space.
        std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        let began = std::time::Instant::now();
        let failure = RankTable::read(&path, Product::A2).map(drop).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        (failure.text.to_string(), began.elapsed())
    };
    let (text, time) = told(1 << 40);
    assert!(text.contains("EI0004") && text.contains("it has 1099511627776 bytes"), "{text}");
    assert!(text.contains("1073741824 are the most"), "{text}");
    assert!(time < std::time::Duration::from_secs(60), "{time:?}");
    assert!(told(7).0.contains("it is not JSON"));
}
