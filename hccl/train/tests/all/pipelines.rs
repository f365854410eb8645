//! Tests of pipelines.

use hccl_train::pipeline::{Pass, Pipeline};
use hccl_train::{Error, Result};

use crate::on_ranks;

#[test]
fn a_pipeline_brings_every_micro_batch_to_the_end_and_back() {
    on_ranks(|rank, comm, stream| {
        let (stage, stages) = (rank.index() as f32, rank.world_size() as f32);
        let mut pipeline = Pipeline::<f32>::new(9, comm, stream)?;
        assert_eq!(pipeline.is_last(), stage + 1.0 == stages);
        for micros in [0, 1, 5] {
            // A micro-batch has two elements more than its number. Each stage adds 1 to each
            // element in the forward pass and 10 in the backward pass.
            let expects = |pass| match pass {
                Pass::Forward(micro) | Pass::Backward(micro) => micro + 2,
            };
            let mut back = Vec::new();
            let run = |pass, input: Option<Vec<f32>>| -> Result<Vec<f32>> {
                match pass {
                    Pass::Forward(micro) => {
                        let input = input.unwrap_or_else(|| vec![micro as f32 * 100.0; micro + 2]);
                        assert_eq!(input, vec![micro as f32 * 100.0 + stage; micro + 2]);
                        Ok(input.iter().map(|value| value + 1.0).collect())
                    }
                    Pass::Backward(micro) => {
                        let input = input.unwrap_or_else(|| vec![micro as f32; micro + 2]);
                        let behind = stages - 1.0 - stage;
                        assert_eq!(input, vec![micro as f32 + 10.0 * behind; micro + 2]);
                        back.push(micro);
                        Ok(input.iter().map(|value| value + 10.0).collect())
                    }
                }
            };
            pipeline.step(micros, comm, stream, expects, run)?;
            assert!(back.into_iter().eq(0..micros));
        }
        Ok(())
    });
}

#[test]
fn what_has_no_room_between_two_stages_is_told_before_anything_moves() {
    on_ranks(|rank, comm, stream| {
        let mut pipeline = Pipeline::<f32>::new(3, comm, stream)?;
        let run = |_, _: Option<Vec<f32>>| Ok::<_, Error>(vec![0.0; 4]);
        let outcome = pipeline.step(1, comm, stream, |_| 4, run);
        if rank.world_size() > 1 {
            let why = outcome.expect_err("4 elements").to_string();
            assert!(why.contains("the room of the pipeline has 3 elements, but 4"), "{why}");
        }
        Ok(())
    });
}
