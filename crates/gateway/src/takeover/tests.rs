//! Offers between two processes that misbehave: the one that runs goes on, the one that would take over says why it does not.

use super::beside::{Beside, OldProcess};
use super::offer::TransportOffer;
use super::*;
use crate::handle::{Request, Source};
use crate::privileges::Plan;
use mio::{Poll, Token, Waker};
use serde_json::{Value, json};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, mpsc};

fn settings(directory: &tempfile::TempDir, gateway: &str) -> Settings {
    let key = satpep::PrivateKey::from_random([1; 32]);
    let text = format!(
        "[gateway]\nprivate_key = \"{}\"\nlisten = \"127.0.0.1:4500\"\n{gateway}\n\
         [link]\nrate = \"10Mbit/s\"\nrtt = \"500ms\"\n[[peer]]\nname = \"hub\"\npublic_key = \"{}\"\n",
        key.to_base64(),
        satpep::PrivateKey::from_random([2; 32]).public_key(),
    );
    let mut settings = crate::config::parse(&text, "gateway.toml").unwrap_or_else(|faults| panic!("{faults}"));
    settings.control = directory.path().join("gateway.sock");
    settings
}

fn offer(settings: &Settings, generation: u32) -> Value {
    let transport = TransportOffer { generation, up: Vec::new(), listener: None };
    json!({ "offer": Offer::new(settings, Vec::new(), &transport) })
}

/// What becomes of a process that asks the gateway of `settings`, which says `reply`, and `ready` once it is made an offer and
/// hears `last_words` then.
fn outcome(settings: &Settings, reply: &[u8], last_words: &[u8]) -> Result<Vec<u8>, String> {
    let _ = std::fs::remove_file(&settings.control);
    let listener = UnixListener::bind(&settings.control).unwrap();
    let heir = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = listener.accept().unwrap().0;
            assert_eq!(read_line(Instant::now() + PATIENCE, &mut stream, 64).unwrap(), QUESTION);
            stream.write_all(reply).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        Heir::ask(settings).map_err(|error| error.to_string())
    })?;
    let (mut near, far) = UnixStream::pair().unwrap();
    near.write_all(last_words).unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    let outcome = Heir { stream: far, ..heir }.commit().map_err(|error| error.to_string());
    assert_eq!(read_line(Instant::now() + PATIENCE, &mut near, 64).unwrap(), "ready");
    outcome.map(|(_, estate)| estate)
}

fn line(reply: &Value) -> Vec<u8> {
    format!("{reply}\n").into_bytes()
}

#[test]
fn what_is_left_arrives_whole_or_nothing_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory, "");
    let offer = line(&offer(&settings, 0));
    assert_eq!(outcome(&settings, &offer, b"done 6\nestate"), Ok(b"estate".to_vec()));
    assert_eq!(outcome(&settings, &offer, b"done 0\n"), Ok(Vec::new()));
    let last_words: [&[u8]; 9] = [
        b"",
        b"\n",
        b"done",
        b"done \n",
        b"done -1\n",
        b"done 99999999999\n",
        b"estate\n",
        // Ends of a process that is killed while it speaks.
        b"done 6",
        b"done 6\nesta",
    ];
    for words in last_words {
        let error = outcome(&settings, &offer, words).unwrap_err();
        assert_eq!(error, "--take-over: the running gateway has ended meanwhile", "{}", words.escape_ascii());
    }
}

#[test]
fn an_offer_that_is_cut_or_is_none_is_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory, "");
    let whole = line(&offer(&settings, 0));
    for end in [0, 1, whole.len() / 2, whole.len() - 1] {
        let error = outcome(&settings, &whole[..end], b"").unwrap_err();
        assert!(error.starts_with("taking over from the gateway at /"), "{end}: {error}");
    }
    // A gateway from before there was anything to hand over answers with an error of its own.
    for other in
        [&b"{\"done\":false,\"refused\":[\"the question is none of: status\"]}\n"[..], b"{}\n", b"\xff\n", b"\n"]
    {
        let error = outcome(&settings, other, b"").unwrap_err();
        assert_eq!(error, "--take-over: the running gateway does not know how to hand over");
    }
}

#[test]
fn a_gateway_that_does_not_answer_is_said_not_to() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory, "");
    // The kernel accepts for it.
    let _stopped = UnixListener::bind(&settings.control).unwrap();
    let error = Heir::ask_within(&settings, Duration::from_millis(1)).err().unwrap().to_string();
    assert!(error.contains("has not answered for 0 s: is it stopped?"), "{error}");
}

#[test]
fn a_gateway_that_answers_with_its_state_is_asked_again() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory, "");
    let listener = UnixListener::bind(&settings.control).unwrap();
    let offer = line(&offer(&settings, 0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // It hangs up before the question has come.
            listener.accept().unwrap().0.write_all(b"{\"peers\":[]}\n").unwrap();
            let mut stream = listener.accept().unwrap().0;
            assert_eq!(read_line(Instant::now() + PATIENCE, &mut stream, 64).unwrap(), QUESTION);
            stream.write_all(&offer).unwrap();
        });
        Heir::ask(&settings).unwrap();
    });
}

#[test]
fn an_offer_in_another_form_and_a_refusal_say_so() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory, "");
    for version in [0, VERSION - 1, VERSION + 1] {
        let mut other = offer(&settings, 0);
        other["offer"]["version"] = version.into();
        let error = outcome(&settings, &line(&other), b"").unwrap_err();
        assert_eq!(error, format!("--take-over: the running gateway hands over in form {version}, not {VERSION}"));
    }
    let error = outcome(&settings, &line(&json!({ "refused": "the running gateway drains" })), b"").unwrap_err();
    assert_eq!(error, "--take-over: the running gateway drains");
}

#[test]
fn of_settings_that_differ_the_one_to_put_back_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let own = settings(&directory, "");
    let fields = [
        ("is_tcp", json!(true), "[gateway] transport"),
        ("is_confirmed", json!(true), "[gateway] accept"),
        ("public_key", json!("another"), "[gateway] private_key"),
        ("listen", json!("127.0.0.1:4501"), "[gateway] listen"),
        ("table", json!("another"), "[gateway] name"),
        ("port", json!(1), "[intercept] port"),
        ("mark", json!(1), "[intercept] mark"),
        ("routing_table", json!(1), "[intercept] table"),
        ("priority", json!(1), "[intercept] rule_priority"),
    ];
    for (field, value, name) in fields {
        let mut other = offer(&own, 0);
        assert!(!other["offer"]["fixed"][field].is_null(), "{field}");
        other["offer"]["fixed"][field] = value;
        let error = outcome(&own, &line(&other), b"").unwrap_err();
        assert_eq!(
            error,
            format!(
                "--take-over: {name} is not that of the running gateway: restart it (under systemd: /usr/lib/bentpipe/restart NAME)"
            )
        );
    }
}

#[test]
fn the_two_processes_have_different_generations() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory, "");
    for (theirs, ours) in [(0, 1), (1, 0), (6, 1), (u32::MAX, 0)] {
        let offer: Reply = serde_json::from_value(offer(&settings, theirs)).unwrap();
        let Reply::Offer(offer) = offer else { panic!("a refusal") };
        let stream = UnixStream::pair().unwrap().0;
        let heir = Heir { offer: *offer, listeners: Vec::new(), satellite_listener: None, stream };
        assert!(matches!(heir.run(), Run::Beside { generation } if generation == ours), "{theirs}");
    }
}

#[test]
fn a_word_that_comes_byte_by_byte_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory, "");
    let (handle, asked) = handle(&settings);
    let offer = Offer::new(&settings, Vec::new(), &TransportOffer { generation: 0, up: Vec::new(), listener: None });
    let (mut near, far) = UnixStream::pair().unwrap();
    let patience = Duration::from_millis(200);
    let serving = std::thread::spawn(move || serve_within(patience, far, &handle));
    let Ok(Request::Offer(sender)) = asked.recv() else { panic!("another request") };
    sender.send(Ok((offer, Vec::new()))).unwrap();
    let began = Instant::now();
    while near.write_all(b"x").is_ok() && began.elapsed() < patience * 20 {
        std::thread::sleep(patience / 4);
    }
    assert!(serving.join().unwrap().is_err());
    assert!(began.elapsed() < patience * 10, "it has had {:?}", began.elapsed());
    assert!(matches!(asked.recv(), Ok(Request::WithdrawOffer)));
}

/// A way to the loop of a gateway with `settings`, and what is asked of it.
fn handle(settings: &Settings) -> (Handle, mpsc::Receiver<Request>) {
    let (requests, asked) = mpsc::channel();
    let poll = Poll::new().unwrap();
    let source = Source::of(settings);
    let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
    (Handle { requests, waker, source: Arc::new(source) }, asked)
}

/// What a gateway's loop is asked by a process that says `words` when it is made an offer, and what that process reads.
fn asked(settings: &Settings, refusal: Option<&str>, words: &[u8]) -> (Vec<&'static str>, String) {
    let (handle, asked) = handle(settings);
    let (mut near, far) = UnixStream::pair().unwrap();
    near.write_all(words).unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    let transport = TransportOffer { generation: 0, up: Vec::new(), listener: None };
    let offer = Offer::new(settings, Vec::new(), &transport);
    let serving = std::thread::spawn(move || serve(far, &handle));
    let done = asked.into_iter().map(|request| match request {
        Request::Offer(sender) => {
            let answer = refusal.map_or_else(|| Ok((offer.clone(), Vec::new())), |reason| Err(reason.to_owned()));
            sender.send(answer).unwrap();
            "offer"
        }
        Request::WithdrawOffer => "withdraw",
        Request::HandOver(_, sender) => {
            sender.send(b"estate".to_vec()).unwrap();
            "hand over"
        }
        _ => "another",
    });
    let done = done.collect();
    let _ = serving.join().unwrap();
    let mut said = Vec::new();
    // Where the gateway has not read all, what it said is followed by a reset.
    let _ = near.read_to_end(&mut said);
    (done, String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_gateway_lets_go_only_of_what_another_process_says_in_full_that_it_takes() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory, "");
    let (done, said) = asked(&settings, None, b"ready\n");
    assert_eq!(done, ["offer", "hand over"]);
    assert!(said.starts_with("{\"offer\":{\"version\":3,") && said.ends_with("}\ndone 6\nestate"), "{said}");
    let endless = [b'x'; 200];
    for words in [&b""[..], b"\n", b"read\n", b"READY\n", b"ready", b"ready now\n", &endless] {
        let (done, said) = asked(&settings, None, words);
        assert_eq!(done, ["offer", "withdraw"], "{}", words.escape_ascii());
        assert!(!said.contains("done"), "{said}");
    }
    let (done, said) = asked(&settings, Some("it drains"), b"ready\n");
    assert_eq!((done, said.as_str()), (vec!["offer"], "{\"refused\":\"it drains\"}\n"));
}

#[test]
fn the_note_of_an_upgrade_is_readable_for_the_user_as_whom_the_gateway_goes_on() {
    if !kernel::process::is_root() || kernel::privileges::Account::find("nobody").unwrap().is_none() {
        eprintln!("skipped: files can only be given away by root, and here to nobody");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = settings(&directory, "user = \"nobody\"");
    let plan = Plan::new(&settings).unwrap();
    let offer: Reply = serde_json::from_value(offer(&settings, 0)).unwrap();
    let Reply::Offer(offer) = offer else { panic!("a refusal") };
    let stream = UnixStream::pair().unwrap().0;
    let heir = Heir { offer: *offer, listeners: Vec::new(), satellite_listener: None, stream };
    let place = Beside::find(&settings, Some(&heir)).unwrap().unwrap();
    place.note(&settings, &plan).unwrap();
    let nobody = kernel::privileges::Account::find("nobody").unwrap().unwrap().uid;
    let note = directory.path().join("gateway.sock.upgrade");
    let read = Command::new("cat").arg(&note).uid(nobody).output().unwrap();
    assert!(read.status.success() && read.stdout == std::fs::read(&note).unwrap(), "{read:?}");
    assert_eq!(std::fs::metadata(&note).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Its number may be given to another process.
#[test]
fn a_noted_process_that_has_ended_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory, "");
    let mut sleeps = Command::new("sleep").arg("100").spawn().unwrap();
    let note = json!({ "pid": sleeps.id(), "generation": 1, "peers": [] });
    std::fs::write(directory.path().join("gateway.sock.upgrade"), note.to_string()).unwrap();
    let old = OldProcess::noted(&settings).expect("it runs");
    assert_eq!((old.pid, old.has_ended()), (sleeps.id(), false));
    sleeps.kill().unwrap();
    sleeps.wait().unwrap();
    assert!(old.has_ended() && OldProcess::noted(&settings).is_none());
}
