"""What runs by the command: tuning, papers, the lab."""

import os
import signal
import subprocess
import sys
import warnings

import pytest

import bentpipe as bp


def test_tune_gives_the_command_s_document(command):
    document = bp.tune(rate="6Mbit/s", rtt="550ms", size="1MB")
    assert document


def test_papers_are_listed(command):
    assert "marchese" in str(bp.papers(list=True))


def test_wrong_input_has_the_command_s_text(command):
    with pytest.raises(bp.InputError, match="6Mbit/s"):
        bp.tune(rate="6", rtt="550ms")


def test_a_command_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("BENTPIPE", "/nowhere/bentpipe")
    with pytest.raises(bp.MissingError, match="/nowhere/bentpipe: No such file"):
        bp.tune(rate="6Mbit/s")


def test_a_program_that_prints_no_json_is_told(monkeypatch):
    monkeypatch.setenv("BENTPIPE", "/bin/true")
    with pytest.raises(bp.CommandError, match="/bin/true printed no JSON document"):
        bp.tune(rate="6Mbit/s")


def test_an_interrupt_gives_what_the_command_has_finished(monkeypatch, tmp_path):
    program = tmp_path / "bentpipe"
    program.write_text(f"""#!{sys.executable}
import os, signal, sys, time
def end(*_):
    print('{{"papers": ["marchese"]}}')
    sys.exit(1)
signal.signal(signal.SIGINT, end)
time.sleep(0.5)
os.kill(os.getppid(), signal.SIGINT)
time.sleep(60)
""")
    program.chmod(0o755)
    monkeypatch.setenv("BENTPIPE", str(program))
    # What runs in the background of a shell ignores interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as interrupt:
            bp.papers()
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupt.value.document == {"papers": ["marchese"]}


@pytest.mark.parametrize(
    "does, says, document",
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL", None),
        ("sys.exit(1)", "failed with exit code 1 and said nothing", None),
        ("""print('{"runs": ['); print('{"error": "the disk is full"}', file=sys.stderr); sys.exit(1)""", "^the disk is full$", None),
        ("""print('{"runs": []}'); print('{"error": "the disk is full"}', file=sys.stderr); sys.exit(1)""", "^the disk is full$", {"runs": []}),
    ],
)
def test_a_command_that_fails_says_why_whatever_it_printed(monkeypatch, tmp_path, does, says, document):
    monkeypatch.setenv("BENTPIPE", written(tmp_path, does))
    with pytest.raises(bp.CommandError, match=says) as error:
        bp.papers()
    assert error.value.document == document


def test_what_a_command_warns_of_is_a_warning(monkeypatch, tmp_path):
    program = tmp_path / "bentpipe"
    program.write_text("#!/bin/sh\necho '2026-01-01T00:00:00Z  WARN lab: the flow was cut off' >&2\necho '{}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("BENTPIPE", str(program))
    with pytest.warns(RuntimeWarning, match="^lab: the flow was cut off$"):
        assert bp.papers() == {}


def test_arguments_and_documents_are_utf_8_whatever_the_locale(tmp_path):
    program = tmp_path / "bentpipe"
    program.write_text("""#!/bin/sh\nprintf '{"argument": "%s"}' "$2"\n""")
    program.chmod(0o755)
    code = "import bentpipe as bp; print(ascii(bp.tune(to='\\xfc')))"
    environment = {"BENTPIPE": str(program), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.stdout == "{'argument': '--to=\\xfc'}\n", done.stderr


def test_an_interrupt_stays_one_whatever_the_command_printed(monkeypatch, tmp_path):
    end = """def end(*_):
    print('{"papers": [', flush=True)
    os._exit(1)
"""
    does = end + "signal.signal(signal.SIGINT, end)\ntime.sleep(0.5)\nos.kill(os.getppid(), signal.SIGINT)\ntime.sleep(60)"
    monkeypatch.setenv("BENTPIPE", written(tmp_path, does))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as interrupt:
            bp.papers()
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupt.value.document is None


def test_an_exception_kills_the_command(monkeypatch, tmp_path):
    does = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(0.5)\nos.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(60)"
    monkeypatch.setenv("BENTPIPE", written(tmp_path, does))
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with pytest.raises(SystemExit):
            bp.papers()
    finally:
        signal.signal(signal.SIGTERM, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def written(folder, text: str) -> str:
    """A program that does `text`, in the place of the command."""
    program = folder / "bentpipe"
    program.write_text(f"#!{sys.executable}\nimport os, signal, sys, time\n{text}\n")
    program.chmod(0o755)
    return str(program)


def namespaces() -> bool:
    """Whether this machine lets us make network namespaces."""
    probe = ["unshare", "--net", "true"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def test_the_lab_gets_the_name_of_a_file_as_it_is(monkeypatch, tmp_path, scenario):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.toml")
    with open(path, "w") as file:
        file.write(scenario.to_toml())
    monkeypatch.setenv("BENTPIPE", written(tmp_path, """print('{"name": "' + ascii(sys.argv[2]).strip("'").replace("\\\\", "/") + '"}')"""))
    assert bp.lab(path)["name"].endswith("/caf/udce9.toml")


def test_the_lab_runs_a_scenario_with_the_kernel_s_tcp(command, scenario):
    if not namespaces():
        pytest.skip("network namespaces cannot be made here")
    plain = scenario.with_settings({"link.sat.loss": 0})
    with warnings.catch_warnings():
        # Of packets that a busy machine drops.
        warnings.simplefilter("ignore", RuntimeWarning)
        document = bp.lab(plain)
    (run,) = document["runs"]
    assert "file" in str(run) and "goodput" in str(run)
