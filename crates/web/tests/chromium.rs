//! A headless Chromium, driven by the DevTools protocol over a pipe.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A browser with one page.
pub struct Browser {
    child: Child,
    messages: mpsc::Receiver<Value>,
    session: Option<String>,
    calls: u64,
    /// The addresses that the page has requested.
    pub requested: Vec<String>,
    /// What the page logged: exceptions, and what the content security policy refused.
    pub complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

/// The browser of this host.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path).flat_map(|directory| names.map(|name| directory.join(name))).find(|file| file.exists())
}

impl Browser {
    /// A browser, or a message and `None` where there is none.
    pub fn start() -> Option<Self> {
        let Some(program) = program() else {
            eprintln!("skipped: there is no chromium here");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        // The protocol is spoken on descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
            ])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                let _ = sender.send(serde_json::from_slice(&message).unwrap());
            }
        });
        let (requested, complaints) = (Vec::new(), Vec::new());
        let mut browser = Self { child, messages, session: None, calls: 0, requested, complaints, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Network", "Runtime", "Log", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.messages.recv_timeout(PATIENCE).unwrap();
            if answer["id"] == self.calls {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                self.requested.extend(parameters["request"]["url"].as_str().map(str::to_owned));
            }
            Some("Runtime.exceptionThrown") => self.complaints.push(parameters["exceptionDetails"].to_string()),
            Some("Log.entryAdded") if parameters["entry"]["source"] == "security" => {
                self.complaints.push(parameters["entry"]["text"].to_string());
            }
            _ => {}
        }
    }

    /// Opens `address` in a window of this size.
    pub fn open(&mut self, address: &str, width: u32, height: u32) {
        self.resize(width, height);
        self.call("Page.navigate", json!({"url": address}));
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        self.call("Runtime.evaluate", parameters)["result"]["value"].clone()
    }

    /// Sets the size of the window.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Writes a picture of the page as `name` into the directory that `BENTPIPE_SCREENSHOTS` names, for people to look at.
    pub fn picture(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("BENTPIPE_SCREENSHOTS") else { return };
        let picture = self.call("Page.captureScreenshot", json!({"captureBeyondViewport": true}));
        let bytes = BASE64_STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        std::fs::write(PathBuf::from(directory).join(format!("{name}.png")), bytes).unwrap();
    }

    /// The text of the element `id`.
    pub fn text(&mut self, id: &str) -> String {
        let text = self.value(&format!("document.getElementById({id:?})?.innerText ?? \"\""));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until `expression` is true; returns how long that took.
    pub fn wait(&mut self, expression: &str) -> Duration {
        let started = Instant::now();
        while self.value(expression) != json!(true) {
            let page = || self.value("document.body.innerText").to_string();
            assert!(started.elapsed() < PATIENCE, "{expression}: {}", { page }());
            std::thread::sleep(Duration::from_millis(20));
        }
        started.elapsed()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
