use super::super::arrivals::Law;
use super::*;

const S: u64 = 1_000_000_000;

fn spec() -> SessionSpec {
    SessionSpec {
        starts: ArrivalSpec {
            seed: 5,
            key: 9,
            law: Law::Poisson,
            rate_req_per_s: 2.0,
            burstiness: None,
            burst: None,
            shape: None,
            length_ns: 5_000 * S,
        },
        turns: Turns::Geometric { mean: 10.0 },
        pause: Pause::Exponential { mean_ns: 4e9 },
        input: Dist::Lognormal { median: 200.0, p95: 900.0 },
        output: Dist::Uniform { low: 50, high: 150 },
        head_tokens: 1_000,
        context_tokens: None,
    }
}

#[test]
fn sessions_have_their_turns_and_pauses() {
    let all = sessions(&spec()).unwrap();
    let n_sessions = all.session[all.session.len() - 1] + 1;
    assert!((n_sessions as f64 - 10_000.0).abs() < 400.0);
    assert!((all.session.len() as f64 / n_sessions as f64 - 10.0).abs() < 0.4); // sd of a mean of 10,000: 0.095
    let pauses: u64 = all.delay_ns.iter().sum();
    let n_pauses = all.session.len() as f64 - n_sessions as f64;
    assert!((pauses as f64 / n_pauses / 4e9 - 1.0).abs() < 0.02);
}

#[test]
fn a_prompt_is_the_session_so_far_and_what_the_turn_adds() {
    let all = sessions(&spec()).unwrap();
    for row in 0..all.session.len() {
        let after = all.after_row[row];
        if after == NO_ROW {
            assert!(row == 0 || all.session[row] == all.session[row - 1] + 1);
            assert!(all.input_tokens[row] > 1_000 && all.delay_ns[row] == 0);
        } else {
            let before = after as usize;
            assert_eq!(before, row - 1);
            assert_eq!(all.session[before], all.session[row]);
            assert_eq!(all.arrival_ns[before], all.arrival_ns[row]);
            assert!(all.input_tokens[row] > all.input_tokens[before] + all.output_tokens[before]);
        }
    }
}

#[test]
fn a_session_ends_at_the_context_and_says_how_many_turns_it_lost() {
    let free = sessions(&spec()).unwrap();
    let held = sessions(&SessionSpec { context_tokens: Some(4_000), ..spec() }).unwrap();
    let lost: u64 = held.lost_turns.iter().map(|n| u64::from(*n)).sum();
    assert!(lost > 0);
    assert_eq!(held.session.len() as u64 + lost, free.session.len() as u64);
    assert!(held.input_tokens.iter().zip(&held.output_tokens).all(|(i, o)| i + o <= 4_000));
    // A first turn that does not fit is drawn again.
    assert!(held.redraws.iter().zip(&held.after_row).all(|(n, after)| *n == 0 || *after == NO_ROW));
}

#[test]
fn turns_do_not_depend_on_how_long_the_run_is() {
    let long = sessions(&spec()).unwrap();
    let mut short = spec();
    short.starts.length_ns = 10 * S;
    let short = sessions(&short).unwrap();
    assert_eq!(short.input_tokens, long.input_tokens[..short.input_tokens.len()]);
    assert_eq!(short.delay_ns, long.delay_ns[..short.delay_ns.len()]);
}

#[test]
fn fixed_turns_and_wrong_ones() {
    let all = sessions(&SessionSpec { turns: Turns::Fixed { value: 3 }, ..spec() }).unwrap();
    assert_eq!(all.session.len() as u64, 3 * (all.session[all.session.len() - 1] + 1));
    let one = sessions(&SessionSpec { turns: Turns::Geometric { mean: 1.0 }, ..spec() }).unwrap();
    assert!(one.after_row.iter().all(|after| *after == NO_ROW));
    for turns in [Turns::Fixed { value: 0 }, Turns::Geometric { mean: 0.5 }, Turns::Geometric { mean: f64::NAN }] {
        assert!(sessions(&SessionSpec { turns, ..spec() }).is_err());
    }
    let pause = Pause::Uniform { low_ns: 2.0, high_ns: 1.0 };
    assert!(sessions(&SessionSpec { pause, ..spec() }).is_err());
}
