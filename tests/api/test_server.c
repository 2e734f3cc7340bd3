/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A real server on a Unix socket, in a child process, with the real client and with raw, hostile bytes. */
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "api/client.h"
#include "api/server.h"
#include "support.h"

static char dir[] = "/tmp/velad-api-XXXXXX";
static char path[128];
static pid_t server;

/* Answers with what it was asked, so that the tests see what arrived. */
static int echo(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	struct json_out o = json_out_new();

	(void)self;
	(void)err;
	json_add_string(&o, "param", req->param);
	json_add_uint(&o, "length", req->body_len);
	json_add_bool(&o, "me", req->uid == getuid());
	res->body = json_finish(&o);
	if (strcmp(req->param, "accepted") == 0) {
		res->status = 202;
		(void)snprintf(res->location, sizeof(res->location), "/v1/operations/7");
	}
	return 0;
}

static int refuse(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	(void)self;
	(void)req;
	res->reasons = json_object_new_array();
	(void)json_object_array_add(res->reasons, json_object_new_string("because"));
	return error_set(err, -ENOSPC, "it does not fit");
}

/* A bug in a handler: it fails, and does not say why. */
static int mumble(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	(void)self;
	(void)req;
	(void)res;
	(void)err;
	return -ENODEV;
}

/* What is no JSON must not look like an answer, or like a problem document. */
static int babble(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	(void)self;
	(void)err;
	if (strcmp(req->param, "array") == 0)
		res->text = "[1]";
	else if (strcmp(req->param, "odd") == 0)
		res->text = "{\"code\":\"busy\",\"detail\":\"d\",\"reasons\":7}";
	else
		res->text = "<p>no</p>";
	res->status = strcmp(req->param, "200") == 0 ? 200 : 500;
	return 0;
}

static const struct api_route routes[] = {
	{ "GET", "/v1/echo/{name}", echo },
	{ "POST", "/v1/echo/{name}", echo },
	{ "POST", "/v1/refuse", refuse },
	{ "GET", "/v1/mumble", mumble },
	{ "GET", "/v1/babble/{how}", babble },
	{ 0 },
};

static int serve(int fd)
{
	auto_(api_server_free) struct api_server *s = NULL;
	struct error err = ERROR_INIT;
	sd_event *event = NULL;

	if (sd_event_new(&event) < 0 || api_server_new(&s, event, fd, routes, NULL, &err) < 0)
		return 1;
	return sd_event_loop(event) < 0;
}

static int start(void **state)
{
	struct error err = ERROR_INIT;
	int fd;

	(void)state;
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/sock", dir);
	fd = api_listen(path, &err);
	if (fd < 0)
		return -1;
	server = fork();
	if (server == 0)
		_exit(serve(fd));
	(void)close(fd);
	return server > 0 ? 0 : -1;
}

static int stop(void **state)
{
	int status = 0;

	(void)state;
	(void)kill(server, SIGTERM);
	(void)waitpid(server, &status, 0);
	(void)unlink(path);
	(void)rmdir(dir);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? 0 : -1; /* it must not have died before */
}

static int open_raw(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval wait = { .tv_sec = 5 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(addr.sun_path, path, strlen(path) + 1);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* Sends bytes, returns what comes back until the server closes or is silent for so long. */
static void raw(char answer[4096], const char *bytes, size_t len, unsigned silent_ms)
{
	struct timeval wait = { .tv_sec = silent_ms / 1000, .tv_usec = silent_ms % 1000 * 1000 };
	int fd = open_raw();
	size_t n = 0;
	ssize_t got;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
	assert_true(send(fd, bytes, len, MSG_NOSIGNAL) > 0);
	(void)shutdown(fd, SHUT_WR);
	while (n < 4095 && (got = recv(fd, answer + n, 4095 - n, 0)) > 0)
		n += (size_t)got;
	answer[n] = '\0';
	(void)close(fd);
}

static void call_ok(const char *method, const char *url, json_object *body, struct api_reply *reply)
{
	struct error err = ERROR_INIT;

	if (api_call(reply, path, method, url, body, 5000, &err) < 0)
		fail_msg("%s %s: %s", method, url, err.text);
}

static void requests_arrive(void **state)
{
	json_object *body = json_tokener_parse("{\"a\":[1,2,3]}");
	struct api_reply reply;

	(void)state;
	call_ok("GET", "/v1/echo/train-1", NULL, &reply);
	assert_int_equal(reply.status, 200);
	assert_string_equal(json_object_get_string(json_object_object_get(reply.body, "param")), "train-1");
	assert_true(json_object_get_boolean(json_object_object_get(reply.body, "me")));
	api_reply_done(&reply);
	call_ok("POST", "/v1/echo/accepted", body, &reply);
	assert_int_equal(reply.status, 202);
	assert_true(json_object_get_int(json_object_object_get(reply.body, "length")) > 10);
	api_reply_done(&reply);
	call_ok("GET", "/v1/echo/a%2db", NULL, &reply);
	assert_string_equal(json_object_get_string(json_object_object_get(reply.body, "param")), "a-b");
	api_reply_done(&reply);
	json_object_put(body);
}

static void problems_become_errors(void **state)
{
	struct error err = ERROR_INIT;
	struct api_reply reply;

	(void)state;
	assert_int_equal(api_call(&reply, path, "POST", "/v1/refuse", NULL, 5000, &err), -ENOSPC);
	assert_string_equal(err.text, "it does not fit");
	assert_int_equal(json_object_array_length(reply.reasons), 1);
	api_reply_done(&reply);
	err = ERROR_INIT;
	assert_int_equal(api_call(&reply, path, "GET", "/v1/nope", NULL, 5000, &err), -ENOENT);
	api_reply_done(&reply);
	err = ERROR_INIT;
	assert_int_equal(api_call(&reply, path, "DELETE", "/v1/echo/a", NULL, 5000, &err), -EOPNOTSUPP);
	assert_non_null(strstr(err.text, "GET, POST"));
	api_reply_done(&reply);
	err = ERROR_INIT;
	assert_int_equal(api_call(&reply, path, "GET", "/v1/echo/a?x=1", NULL, 5000, &err), -EINVAL);
	api_reply_done(&reply);
	err = ERROR_INIT;
	assert_int_equal(api_call(&reply, path, "GET", "/v1/mumble", NULL, 5000, &err), -ENODEV);
	assert_int_equal(reply.status, 503);
	assert_non_null(strstr(err.text, "/v1/mumble"));
	api_reply_done(&reply);
}

static void answers_may_be_wrong(void **state)
{
	static const struct {
		const char *url;
		int         code;
	} cases[] = {
		{ "/v1/babble/200", -EPROTO },
		{ "/v1/babble/500", -EPROTO },
		{ "/v1/babble/array", -EIO },
		{ "/v1/babble/odd", -EBUSY },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = ERROR_INIT;
		struct api_reply reply;

		assert_int_equal(api_call(&reply, path, "GET", cases[i].url, NULL, 5000, &err), cases[i].code);
		assert_null(reply.reasons);
		api_reply_done(&reply);
	}
}

static void nobody_there(void **state)
{
	struct error err = ERROR_INIT;
	struct api_reply reply;

	(void)state;
	assert_int_equal(api_call(&reply, "/nonexistent/sock", "GET", "/", NULL, 1000, &err), -ECONNREFUSED);
	assert_non_null(strstr(err.text, "/nonexistent/sock"));
	assert_non_null(strstr(err.text, "systemctl start velad.socket"));
	api_reply_done(&reply);
}

static void large_bodies_are_refused(void **state)
{
	static char big[API_BODY_MAX + 4096];
	char head[256], answer[4096];
	int n;

	(void)state;
	n = snprintf(head, sizeof(head), "POST /v1/echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", API_BODY_MAX + 1);
	raw(answer, head, (size_t)n, 5000);
	assert_ptr_equal(strstr(answer, "HTTP/1.1 413"), answer);
	/* chunked: nobody says the length beforehand */
	n = snprintf(big, sizeof(big),
		     "POST /v1/echo/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n",
		     API_BODY_MAX + 1024);
	memset(big + n, ' ', API_BODY_MAX + 1024);
	memcpy(big + n + API_BODY_MAX + 1024, "\r\n0\r\n\r\n", 7);
	raw(answer, big, (size_t)n + API_BODY_MAX + 1024 + 7, 5000);
	assert_ptr_equal(strstr(answer, "HTTP/1.1 413"), answer);
}

static void hostile_bytes_do_not_hurt(void **state)
{
	static const char *const bytes[] = {
		"GET /v1/echo/a%00b HTTP/1.1\r\nHost: x\r\n\r\n", "GET /v1/echo/a HTTP/1.1\r\n\r\n",
		"POST /v1/echo/a HTTP/1.1\r\nHost: x\r\nContent-Type: application/jsonx\r\nContent-Length: 1\r\n\r\n1",
		"GARBAGE\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET\r\n\r\n", "\r\n\r\n\r\n", "GET /%00%ff HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"POST /v1/echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"POST /v1/echo/a HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx",
		"POST /v1/echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf", "\x16\x03\x01\x02",
	};
	struct api_reply reply;
	char answer[4096];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bytes); i++) {
		raw(answer, bytes[i], strlen(bytes[i]), 500); /* half a request is waited for: API_IDLE_SECONDS */
		if (strstr(answer, "HTTP/1.1 2"))
			fail_msg("case %zu was answered with success: %s", i, answer);
	}
	call_ok("GET", "/v1/echo/still-there", NULL, &reply);
	api_reply_done(&reply);
}

/* A client that says half a request, and 40 that say nothing, do not keep others waiting. */
static void slow_clients_hurt_nobody(void **state)
{
	struct api_reply reply;
	int fd[40];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		fd[i] = open_raw();
	assert_int_equal(send(fd[0], "POST /v1/echo/a HTTP/1.1\r\nContent-", 34, MSG_NOSIGNAL), 34);
	call_ok("GET", "/v1/echo/quick", NULL, &reply);
	api_reply_done(&reply);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		(void)close(fd[i]);
}

/* At the limit the next one waits, and no longer than until one of the others goes. */
static void the_limit_is_no_dead_end(void **state)
{
	static const char get[] = "GET /v1/echo/a HTTP/1.1\r\nHost: x\r\n\r\n";
	int fd[API_CONNECTIONS_MAX], waiting;
	struct timeval wait = { .tv_usec = 200000 };
	char answer[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		fd[i] = open_raw();
		assert_int_equal(send(fd[i], get, strlen(get), MSG_NOSIGNAL), strlen(get));
		assert_true(recv(fd[i], answer, sizeof(answer), 0) > 0);
	}
	waiting = open_raw();
	assert_int_equal(send(waiting, get, strlen(get), MSG_NOSIGNAL), strlen(get));
	assert_int_equal(setsockopt(waiting, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
	assert_int_equal(recv(waiting, answer, sizeof(answer), 0), -1);
	(void)close(fd[0]);
	wait = (struct timeval){ .tv_sec = 5 };
	assert_int_equal(setsockopt(waiting, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
	assert_true(recv(waiting, answer, sizeof(answer), 0) > 0);
	(void)close(waiting);
	for (size_t i = 1; i < ARRAY_SIZE(fd); i++)
		(void)close(fd[i]);
}

static void check_mode(const char *file)
{
	struct stat st;

	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
}

static void sockets_are_not_stolen(void **state)
{
	struct error err = ERROR_INIT;
	char stale[140], file[140];
	int fd;
	FILE *f;

	(void)state;
	assert_int_equal(api_listen(path, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "another velad"));
	(void)snprintf(stale, sizeof(stale), "%s/stale", dir);
	fd = api_listen(stale, &err);
	assert_true(fd >= 0);
	check_mode(stale);
	(void)close(fd);
	fd = api_listen(stale, &err); /* its file is still there, nobody answers */
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(unlink(stale), 0);
	(void)snprintf(file, sizeof(file), "%s/file", dir);
	f = fopen(file, "w");
	assert_non_null(f);
	(void)fclose(f);
	err = ERROR_INIT;
	assert_int_equal(api_listen(file, &err), -EADDRINUSE); /* a plain file is not ours to remove */
	assert_int_equal(unlink(file), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_arrive),           cmocka_unit_test(problems_become_errors),
		cmocka_unit_test(answers_may_be_wrong),      cmocka_unit_test(nobody_there),
		cmocka_unit_test(large_bodies_are_refused),  cmocka_unit_test(hostile_bytes_do_not_hurt),
		cmocka_unit_test(slow_clients_hurt_nobody),  cmocka_unit_test(the_limit_is_no_dead_end),
		cmocka_unit_test(sockets_are_not_stolen),
	};

	return cmocka_run_group_tests_name("server", tests, start, stop);
}
