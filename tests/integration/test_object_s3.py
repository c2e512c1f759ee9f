"""s3:// against a real S3 server that checks signatures, directly and over a bad network."""
import email.utils
import os
import subprocess
import threading
import time
import urllib.parse

import pytest

from conftest import ROOT, SHERD
from s3server import Proxy, cut_in_half, drop_after, drop_before, error, s3, s3_open, s3_strict, stall, without_headers  # noqa: F401

TOOL = os.path.join(os.path.dirname(SHERD), "tools", "object_tool")
QUICK = ["--attempts", "4", "--backoff-ms", "20"]
MIB = 1 << 20


class Result:
    def __init__(self, run):
        self.ok = run.returncode == 0
        self.out = run.stdout
        self.lines = run.stdout.decode(errors="replace").splitlines() if self.ok else []
        self.error = run.stderr.decode(errors="replace")
        self.code = self.error.split(":")[0] if run.returncode == 1 else None
        assert run.returncode in (0, 1), f"exit {run.returncode}: {self.error}"

    def etag(self):
        return self.lines[0].split(" ")[1]


def command_of(server, args, options, url, endpoint):
    env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and not k.lower().endswith("_proxy")}
    env.update(server.env, HOME="/nonexistent")
    if endpoint:
        env["AWS_ENDPOINT_URL"] = endpoint
    return [TOOL, *QUICK, *options, url or server.url, *args], env


def tool(server, *args, options=(), data=b"", url=None, endpoint=None):
    command, env = command_of(server, args, options, url, endpoint)
    return Result(subprocess.run(command, input=data, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120))


def keys(server, *options, **kw):
    return [urllib.parse.unquote(line.split(" ")[0]) for line in tool(server, "list", options=options, **kw).lines]


@pytest.fixture
def proxy(s3):
    with Proxy(s3.port) as p:
        yield p


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """12 MiB and a bit: three parts of 5 MiB."""
    path = tmp_path_factory.mktemp("big") / "file"
    path.write_bytes(os.urandom(12 * MIB + 345))
    return path


IN_PARTS = ["--part-bytes", str(5 * MIB), "--parallel", "3"]


def uploads_left(s3):
    return s3.ask(f"s3.list_multipart_uploads(Bucket='{s3.bucket}').get('Uploads', [])")


# ---- objects


def test_an_object_is_what_another_client_wrote_and_reads(s3):
    s3.ask(f"s3.put_object(Bucket='{s3.bucket}', Key='some/prefix/theirs', Body=b'from boto')['ETag']")
    assert tool(s3, "get", "theirs").out == b"from boto"
    put = tool(s3, "put", "ours", data=b"from sherd", options=["--type", "application/json"])
    assert put.ok
    seen = s3.ask(f"[(r['Body'].read().decode(), r['ContentType'], r['ETag']) for r in [s3.get_object(Bucket='{s3.bucket}', Key='some/prefix/ours')]]")
    assert seen == [["from sherd", "application/json", put.etag()]]


ODD = ["a b", "a+b", "a%2Bb", "100%", "é/日本", "x/./y", "x/../y", "a//b", "?q=1&r#f", "k=v:w,;@!$'()*", "<&>\"", "~._-", "\x01\x1f", "trailing/", "2026-03-14T10:30:00.000000Z_run_id=ab/manifest"]


def test_keys_may_hold_any_characters(s3):
    url = f"s3://{s3.bucket}/odd"
    for key in ODD:
        assert tool(s3, "put", key, data=key.encode(), url=url).ok, key
        assert tool(s3, "get", key, url=url).out == key.encode(), key
        assert tool(s3, "head", key, url=url).ok, key
    listed = keys(s3, url=url)
    assert sorted(listed) == sorted(ODD)
    theirs = s3.ask(f"[o['Key'] for o in s3.list_objects_v2(Bucket='{s3.bucket}', Prefix='odd/')['Contents']]")
    assert sorted(theirs) == sorted("odd/" + k for k in ODD)
    assert tool(s3, "delete", *ODD, url=url).lines == ["0 failed"]
    assert keys(s3, url=url) == []


def test_a_prefix_may_hold_odd_characters_too(s3):
    url = f"s3://{s3.bucket}/a b/+%41"
    assert tool(s3, "put", "k", data=b"1", url=url).ok
    assert keys(s3, url=url) == ["k"]
    assert s3.ask(f"s3.head_object(Bucket='{s3.bucket}', Key='a b/+%41/k')['ContentLength']") == 1


def test_an_empty_object_is_an_object(s3):
    assert tool(s3, "put", "empty").lines[0].startswith("0 ")
    assert tool(s3, "head", "empty").lines[0].startswith("0 ")
    assert tool(s3, "get", "empty").out == b""
    assert tool(s3, "range", "empty", "0", "1").code == "ERR_OBJECT_RANGE"
    assert tool(s3, "put-file", "empty2", "/dev/null").ok
    assert tool(s3, "head", "empty2").lines[0].startswith("0 ")


def test_ranges_end_with_the_object_and_do_not_begin_behind_it(s3):
    tool(s3, "put", "digits", data=b"0123456789")
    assert tool(s3, "range", "digits", "2", "3").out == b"234"
    assert tool(s3, "range", "digits", "8", "100").out == b"89"
    past = tool(s3, "range", "digits", "10", "1")
    assert past.code == "ERR_OBJECT_RANGE" and "416" in past.error


def test_an_object_larger_than_allowed_is_not_read(s3):
    tool(s3, "put", "ten", data=b"0123456789")
    assert tool(s3, "get", "ten", "10").out == b"0123456789"
    assert tool(s3, "get", "ten", "9").code == "ERR_OBJECT_TOO_LARGE"


def test_many_are_deleted_at_once_and_missing_ones_do_not_matter(s3):
    url = f"s3://{s3.bucket}/many"
    for i in range(3):
        tool(s3, "put", f"k{i}", url=url)
    assert tool(s3, "delete", "k0", "k1", "k2", "nope", url=url).lines == ["0 failed"]
    assert keys(s3, url=url) == []
    assert tool(s3, "delete", "nope", url=url).ok


# ---- lists


def test_a_list_of_more_than_a_thousand_keys_is_whole_and_in_order(s3_open):
    bucket = s3_open.bucket
    s3_open.ask(f"[s3.put_object(Bucket='{bucket}', Key='pages/%04d' % i)['ETag'] for i in range(1005)][:1]")
    url = f"s3://{bucket}/pages"
    assert keys(s3_open, url=url) == ["%04d" % i for i in range(1005)]
    assert keys(s3_open, "--page", "7", "--prefix", "00", url=url) == ["%04d" % i for i in range(100)]
    assert keys(s3_open, "--after", "0999", url=url) == ["1000", "1001", "1002", "1003", "1004"]
    assert tool(s3_open, "delete", *["%04d" % i for i in range(1005)], url=url).lines == ["0 failed"]
    assert keys(s3_open, url=url) == []


def test_folders_are_listed_as_one_item_each(s3):
    url = f"s3://{s3.bucket}/tree"
    for key in ("a/1", "a/2", "b", "c/d/e", "c0"):
        tool(s3, "put", key, url=url)
    assert keys(s3, "--folders", url=url) == ["a/", "b", "c/", "c0"]
    assert keys(s3, "--folders", "--prefix", "c/", url=url) == ["c/d/"]
    assert keys(s3, "--folders", "--page", "1", url=url) == ["a/", "b", "c/", "c0"]


# ---- conditions


def test_conditional_puts_are_honoured_and_the_probe_says_so(s3):
    first = tool(s3, "put", "cas", data=b"1", options=["--if-absent"])
    assert first.ok
    assert tool(s3, "put", "cas", data=b"x", options=["--if-absent"]).code == "ERR_OBJECT_PRECONDITION"
    second = tool(s3, "put", "cas", data=b"2", options=["--if-match", first.etag()])
    assert second.ok
    assert tool(s3, "put", "cas", data=b"x", options=["--if-match", first.etag()]).code == "ERR_OBJECT_PRECONDITION"
    assert tool(s3, "put", "nothing", data=b"x", options=["--if-match", first.etag()]).code == "ERR_OBJECT_PRECONDITION"
    assert tool(s3, "get", "cas").out == b"2"
    assert tool(s3, "probe").lines == ["3"]
    assert keys(s3, "--prefix", "_sherd_probe") == []


def test_a_store_that_ignores_conditions_is_found_out(s3_open):
    with Proxy(s3_open.port) as proxy:
        proxy.on("PUT", "", without_headers("if-none-match", "if-match"), times=None)
        assert tool(s3_open, "put", "k", data=b"1", options=["--if-absent"], endpoint=proxy.endpoint).ok
        assert tool(s3_open, "put", "k", data=b"2", options=["--if-absent"], endpoint=proxy.endpoint).ok
        assert tool(s3_open, "probe", endpoint=proxy.endpoint).lines == ["0"]


def test_a_store_that_knows_one_condition_only_is_found_out(s3_open):
    with Proxy(s3_open.port) as proxy:
        proxy.on("PUT", "", without_headers("if-match"), times=None)
        assert tool(s3_open, "probe", endpoint=proxy.endpoint).lines == ["1"]


def test_a_store_that_refuses_conditions_is_found_out(s3):
    with Proxy(s3.port) as proxy:
        rule = proxy.on("PUT", "", error(501, "NotImplemented"), times=None)
        refuse = rule["fault"]
        rule["fault"] = lambda p, sock, request: refuse(p, sock, request) if {"if-none-match", "if-match"} & set(request.headers) else sock.sendall(b"".join(p.fetch(request))) is None
        assert tool(s3, "put", "no501", options=["--if-absent"], endpoint=proxy.endpoint).code == "ERR_OBJECT_UNSUPPORTED"
        assert tool(s3, "probe", endpoint=proxy.endpoint).lines == ["0"]
        assert tool(s3, "put", "no501", endpoint=proxy.endpoint).ok


def test_a_lost_answer_to_a_conditional_put_is_found_again(s3, proxy):
    proxy.on("PUT", "lost", drop_after)
    put = tool(s3, "put", "lost", data=b"mine", options=["--if-absent"], endpoint=proxy.endpoint)
    assert put.ok and proxy.count("PUT", "lost") == 2 and proxy.count("HEAD", "lost") == 1
    assert tool(s3, "head", "lost").etag() == put.etag()
    proxy.on("PUT", "lost", drop_after)
    again = tool(s3, "put", "lost", data=b"mine too", options=["--if-match", put.etag()], endpoint=proxy.endpoint)
    assert again.ok and tool(s3, "get", "lost").out == b"mine too"


def test_a_lost_conditional_put_that_did_not_happen_is_made_again(s3, proxy):
    proxy.on("PUT", "lost2", drop_before)
    proxy.on("PUT", "lost2", error(500, "InternalError"))
    assert tool(s3, "put", "lost2", data=b"mine", options=["--if-absent"], endpoint=proxy.endpoint).ok
    assert tool(s3, "get", "lost2").out == b"mine"


def test_a_lost_conditional_put_that_was_overwritten_is_uncertain(s3, proxy):
    def lose_and_let_another_write(p, sock, request):
        p.fetch(request)
        tool(s3, "put", "raced", data=b"another's")
        return False

    proxy.on("PUT", "raced", lose_and_let_another_write)
    put = tool(s3, "put", "raced", data=b"mine", options=["--if-absent"], endpoint=proxy.endpoint)
    assert put.code == "ERR_OBJECT_UNCERTAIN"
    assert tool(s3, "get", "raced").out == b"another's"


def test_a_conditional_put_without_any_answer_is_uncertain(s3, proxy):
    proxy.on("PUT", "gone", drop_before, times=None)
    assert tool(s3, "put", "gone", options=["--if-absent"], endpoint=proxy.endpoint).code == "ERR_OBJECT_UNCERTAIN"


def test_counters_in_an_object_add_up(s3):
    command, env = command_of(s3, ["count", "counter", "15"], [], None, None)
    running = [subprocess.Popen(command, env=env) for _ in range(3)]
    assert [p.wait(60) for p in running] == [0, 0, 0]
    assert tool(s3, "get", "counter").out == b"45"


# ---- who may


def test_what_is_wrong_with_the_credentials_is_said(s3):
    access, secret = s3.key
    wrong = tool(s3, "head", "k", options=["--access-key", access, "--secret-key", "wrong"])
    assert wrong.code == "ERR_OBJECT_SIGNATURE" and "SignatureDoesNotMatch" in wrong.error
    assert tool(s3, "put", "k", options=["--access-key", access, "--secret-key", "wrong"]).code == "ERR_OBJECT_SIGNATURE"
    unknown = tool(s3, "get", "k", options=["--access-key", "AKIAUNKNOWN", "--secret-key", secret])
    assert unknown.code == "ERR_OBJECT_CREDENTIALS" and "InvalidAccessKeyId" in unknown.error
    assert secret not in wrong.error + unknown.error


def test_an_anonymous_request_is_not_signed(s3_open):
    with Proxy(s3_open.port) as proxy:
        assert tool(s3_open, "list", options=["--anonymous"], endpoint=proxy.endpoint).ok
        assert "authorization" not in proxy.requests[0].headers and "x-amz-date" not in proxy.requests[0].headers


def test_credentials_come_from_the_aws_files(s3, tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[team]\naws_access_key_id = %s\naws_secret_access_key = %s\n" % s3.key)
    (tmp_path / ".aws" / "config").write_text(f"[profile team]\nregion = eu-west-1\nendpoint_url = {s3.endpoint}\n")
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    run = lambda **more: Result(subprocess.run([TOOL, s3.url, "put", "from-files"], env={**env, **more}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60))
    assert run(AWS_PROFILE="team").ok
    assert run().code == "ERR_OBJECT_CREDENTIALS"


def test_a_missing_bucket_is_told_from_a_missing_object(s3):
    assert tool(s3, "get", "missing").code == "ERR_OBJECT_NOT_FOUND"
    assert tool(s3, "head", "missing").code == "ERR_OBJECT_NOT_FOUND"
    nowhere = "s3://no-such-bucket/x"
    for command in (["get", "k"], ["head", "k"], ["put", "k"], ["list"], ["delete", "a", "b"], ["put-file", "k", "/dev/null"], ["probe"]):
        assert tool(s3, *command, url=nowhere).code == "ERR_OBJECT_NO_BUCKET", command


def test_a_wrong_clock_is_put_right_once(s3, proxy):
    ahead = 86400

    def check_clock(p, sock, request):
        sent = time.mktime(time.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")) - time.timezone
        if abs(sent - (time.time() + ahead)) > 900:
            return error(403, "RequestTimeTooSkewed", Date=email.utils.formatdate(time.time() + ahead, usegmt=True))(p, sock, request)
        sock.sendall(b"".join(p.fetch(request)))
        return True

    for method in ("PUT", "GET", "HEAD"):
        proxy.on(method, "", check_clock, times=None)
    assert tool(s3, "put", "clock", data=b"tick", endpoint=proxy.endpoint).ok
    assert proxy.count("PUT") == 2
    assert tool(s3, "get", "clock", endpoint=proxy.endpoint).out == b"tick"
    assert tool(s3, "head", "clock", endpoint=proxy.endpoint).ok
    ahead = 2 * 86400
    proxy.on("GET", "", error(403, "RequestTimeTooSkewed"), times=None)
    proxy.rules[1]["times"] = 0
    assert tool(s3, "get", "clock", endpoint=proxy.endpoint).code == "ERR_OBJECT_CLOCK"


def test_a_bucket_of_another_region_is_followed(s3, proxy):
    proxy.on("GET", "", error(400, "AuthorizationHeaderMalformed", x_amz_bucket_region="eu-north-1"))
    tool(s3, "put", "far", data=b"away")
    assert tool(s3, "get", "far", endpoint=proxy.endpoint).out == b"away"
    assert "/eu-north-1/s3/" in proxy.requests[-1].headers["authorization"]


# ---- a bad network


@pytest.mark.parametrize("fault", [error(500, "InternalError"), error(503, "SlowDown"), error(503, "ServiceUnavailable", Retry_After="1"), error(502, ""), error(429, "TooManyRequests"),
                                   error(400, "RequestTimeout"), drop_before, drop_after, cut_in_half],
                         ids=["500", "slowdown", "retry-after", "502", "429", "request-timeout", "drop-before", "drop-after", "cut"])
def test_what_passes_is_tried_again(s3, proxy, fault):
    tool(s3, "put", "there", data=b"0123456789" * 100)
    rules = [proxy.on(method, "", fault) for method in ("GET", "HEAD", "PUT", "POST")]
    assert tool(s3, "get", "there", endpoint=proxy.endpoint).out == b"0123456789" * 100
    if fault is not cut_in_half:
        assert tool(s3, "head", "there", endpoint=proxy.endpoint).ok
        assert tool(s3, "put", "again", data=b"x", endpoint=proxy.endpoint).ok
        assert tool(s3, "delete", "again", "again2", endpoint=proxy.endpoint).lines == ["0 failed"]
        assert [r["met"] for r in rules] == [1, 1, 1, 1]
    rules[0]["met"] = 0
    assert "there" in keys(s3, endpoint=proxy.endpoint)
    rules[0]["met"] = 0
    assert tool(s3, "range", "there", "5", "10", endpoint=proxy.endpoint).out == b"5678901234"
    assert rules[0]["met"] == 1


def test_silence_is_given_up_and_tried_again(s3, proxy):
    tool(s3, "put", "quiet", data=b"psst")
    proxy.on("GET", "quiet", stall)
    assert tool(s3, "get", "quiet", options=["--stall-ms", "1000"], endpoint=proxy.endpoint).out == b"psst"
    proxy.on("GET", "quiet", stall, times=None)
    assert tool(s3, "get", "quiet", options=["--stall-ms", "1000", "--attempts", "1"], endpoint=proxy.endpoint).code == "ERR_OBJECT_TIMEOUT"


def test_attempts_have_an_end(s3, proxy):
    proxy.on("GET", "k", error(503, "SlowDown"), times=None)
    busy = tool(s3, "get", "k", endpoint=proxy.endpoint)
    assert busy.code == "ERR_OBJECT_BUSY" and "SlowDown" in busy.error and "FAULT" in busy.error
    assert proxy.count("GET", "k") == 4
    proxy.on("HEAD", "k", drop_before, times=None)
    assert tool(s3, "head", "k", endpoint=proxy.endpoint).code == "ERR_OBJECT_CONNECTION"


def test_a_refusal_is_final(s3, proxy):
    proxy.on("PUT", "k", error(403, "AccessDenied"), times=None)
    assert tool(s3, "put", "k", endpoint=proxy.endpoint).code == "ERR_OBJECT_DENIED"
    assert proxy.count("PUT", "k") == 1


def test_no_server_is_no_connection(s3):
    with Proxy(s3.port) as p:
        dead = p.endpoint
    gone = tool(s3, "get", "k", endpoint="http://127.0.0.1:1")
    assert gone.code == "ERR_OBJECT_CONNECTION" and "127.0.0.1" in gone.error
    assert tool(s3, "get", "k", endpoint="http://no-such-host.invalid", options=["--attempts", "1"]).code == "ERR_OBJECT_CONNECTION"
    assert tool(s3, "get", "k", endpoint="ftp://x").code == "ERR_OBJECT_URL"
    assert dead


def test_answers_that_make_no_sense_are_refused(s3, proxy):
    def nonsense(p, sock, request):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html>?</html")
        return True

    proxy.on("GET", r"\?", nonsense)
    proxy.on("POST", "", nonsense, times=2)
    assert tool(s3, "list", endpoint=proxy.endpoint).code == "ERR_OBJECT_REPLY"
    assert tool(s3, "delete", "a", "b", endpoint=proxy.endpoint).code == "ERR_OBJECT_REPLY"


def test_a_store_without_ranges_or_multiple_deletes_will_do(s3_open):
    with Proxy(s3_open.port) as proxy:
        proxy.on("GET", "k", without_headers("range"), times=None)
        proxy.on("POST", "delete", error(501, "NotImplemented"), times=None)
        tool(s3_open, "put", "k", data=b"0123456789")
        assert tool(s3_open, "range", "k", "3", "4", endpoint=proxy.endpoint).out == b"3456"
        assert tool(s3_open, "range", "k", "8", "4", endpoint=proxy.endpoint).out == b"89"
        assert tool(s3_open, "range", "k", "10", "4", endpoint=proxy.endpoint).code == "ERR_OBJECT_RANGE"
        assert tool(s3_open, "delete", "k", "k2", endpoint=proxy.endpoint).lines == ["0 failed"]
        assert tool(s3_open, "head", "k").code == "ERR_OBJECT_NOT_FOUND"


# ---- large ones


def test_a_large_file_goes_in_parts_and_comes_back(s3, big, tmp_path):
    put = tool(s3, "put-file", "big", str(big), options=[*IN_PARTS, "--progress"])
    assert put.etag().endswith('-3"') and put.lines[1] == f"moved {big.stat().st_size}"
    assert tool(s3, "get-file", "big", str(tmp_path / "back")).etag() == put.etag()
    assert (tmp_path / "back").read_bytes() == big.read_bytes()
    piped = tool(s3, "put-file", "piped", "-", data=big.read_bytes(), options=IN_PARTS)
    assert piped.etag().endswith('-3"')
    assert tool(s3, "range", "piped", str(5 * MIB - 5), "10").out == big.read_bytes()[5 * MIB - 5:5 * MIB + 5]
    assert uploads_left(s3) == []


def test_parts_that_fail_in_passing_are_sent_again(s3, big, proxy):
    proxy.on("PUT", "partNumber=2", error(500, "InternalError"))
    proxy.on("PUT", "partNumber=3", drop_after)
    proxy.on("POST", "uploads", error(503, "SlowDown"))
    proxy.on("POST", "uploadId", error(500, "InternalError"))
    assert tool(s3, "put-file", "bumpy", str(big), options=IN_PARTS, endpoint=proxy.endpoint).ok
    assert tool(s3, "head", "bumpy").lines[0].startswith(str(big.stat().st_size))


def test_a_lost_answer_to_the_completion_is_found_again(s3, big, proxy):
    proxy.on("POST", "uploadId", drop_after)
    put = tool(s3, "put-file", "completed", str(big), options=IN_PARTS, endpoint=proxy.endpoint)
    assert put.ok and proxy.count("POST", "uploadId") >= 2
    assert tool(s3, "head", "completed").etag() == put.etag()


def test_a_completion_that_fails_inside_its_answer_is_tried_again(s3, big, proxy):
    def late_error(p, sock, request):
        body = b"<Error><Code>InternalError</Code><Message>late</Message></Error>"
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        return True

    proxy.on("POST", "uploadId", late_error)
    assert tool(s3, "put-file", "late", str(big), options=IN_PARTS, endpoint=proxy.endpoint).ok


def test_an_upload_that_fails_is_aborted_and_leaves_nothing(s3, big, proxy):
    proxy.on("PUT", "partNumber=2", error(403, "AccessDenied"), times=None)
    assert tool(s3, "put-file", "denied", str(big), options=IN_PARTS, endpoint=proxy.endpoint).code == "ERR_OBJECT_DENIED"
    assert tool(s3, "put-broken", "broken", str(11 * MIB), options=IN_PARTS).code == "EIO"
    cancelled = tool(s3, "put-file", "cancelled", str(big), options=[*IN_PARTS, "--cancel-after", str(6 * MIB)])
    assert cancelled.code == "ERR_OBJECT_CANCELLED"
    assert not {"denied", "broken", "cancelled"} & set(keys(s3))
    assert uploads_left(s3) == []


def test_a_killed_upload_is_not_visible(s3, big, proxy):
    held = threading.Event()

    def hold(p, sock, request):
        held.set()
        return stall(p, sock, request)

    proxy.on("PUT", "partNumber=3", hold, times=None)
    command, env = command_of(s3, ["put-file", "killed", str(big)], IN_PARTS, None, proxy.endpoint)
    process = subprocess.Popen(command, env=env)
    assert held.wait(30)
    process.kill()
    process.wait(10)
    assert tool(s3, "head", "killed").code == "ERR_OBJECT_NOT_FOUND"
    assert "killed" not in keys(s3)
    left = uploads_left(s3)
    assert [u["Key"] for u in left] == ["some/prefix/killed"]
    s3.ask(f"s3.abort_multipart_upload(Bucket='{s3.bucket}', Key='some/prefix/killed', UploadId='{left[0]['UploadId']}')['ResponseMetadata']['HTTPStatusCode']")


def test_a_download_goes_on_where_it_broke(s3, big, proxy, tmp_path):
    tool(s3, "put-file", "resumed", str(big))
    proxy.on("GET", "resumed", cut_in_half)
    got = tool(s3, "get-file", "resumed", str(tmp_path / "back"), endpoint=proxy.endpoint)
    assert got.ok and (tmp_path / "back").read_bytes() == big.read_bytes()
    second = proxy.requests[-1].headers
    assert second["range"] == f"bytes={big.stat().st_size // 2}-" and second["if-match"] == got.etag()


def test_a_download_of_an_object_that_changes_is_refused(s3, big, proxy, tmp_path):
    tool(s3, "put-file", "changing", str(big))

    def cut_and_change(p, sock, request):
        cut_in_half(p, sock, request)
        tool(s3, "put", "changing", data=b"x" * MIB * 13)
        return False

    proxy.on("GET", "changing", cut_and_change)
    assert tool(s3, "get-file", "changing", str(tmp_path / "back"), endpoint=proxy.endpoint).code == "ERR_OBJECT_CHANGED"


# ---- threads


def test_several_threads_share_a_store(s3):
    assert tool(s3, "stress", "6", "10").lines == ["0 failures"]
