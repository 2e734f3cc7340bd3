/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A real server on a Unix socket, in a child process, with the real client and with raw, hostile bytes. */
#include <inttypes.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <pthread.h>
#include <velad/client.h>

#include "api/answer.h"
#include "api/client.h"
#include "api/peers.h"
#include "api/server.h"
#include "support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED false
#endif

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

static struct api_server *serving; /* in the child */
static bool told;

static int wait_for(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	(void)self, (void)err;
	res->text = "{}";
	res->wait = (unsigned)atoi(req->query[0]);
	res->status = req->late ? 408 : 200;
	if (!told && !req->late)
		return API_WAIT;
	told = false;
	return 0;
}

static int tell(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	(void)self, (void)req, (void)err;
	res->text = "{}";
	told = true;
	api_server_wake(serving);
	return 0;
}

static int numbered(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	static char text[64];
	unsigned number = (unsigned)atoi(req->param);

	(void)self, (void)err;
	/* another text for each request: a promise not kept, so that it shows which of them is sent */
	(void)snprintf(text, sizeof(text), "{\"number\":%u,\"asked\":%llu}", number, (unsigned long long)req->id);
	(void)snprintf(res->etag, sizeof(res->etag), "%u", number);
	res->text = text;
	res->number = number;
	return 0;
}

static int big(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	static char text[7 << 20];

	(void)self, (void)req, (void)err;
	memset(text, ' ', sizeof(text) - 1);
	res->text = text;
	return 0;
}

static unsigned key_depth; /* the handler runs between begin and end, and only there with a key */
static bool key_known;

static int key_begin(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	(void)self;
	if (strcmp(req->key, "bad") == 0)
		return error_set(err, -EKEYREJECTED, "used");
	res->text = "{}";
	if (key_known)
		return 1;
	key_known = true;
	key_depth++;
	return 0;
}

static void key_end(void *self)
{
	(void)self;
	key_depth--;
}

static const struct api_keys keys = { key_begin, key_end };

static int keyed(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	(void)self, (void)err;
	res->text = "{}";
	res->status = key_depth == (req->key ? 1 : 0) ? 202 : 500;
	return 0;
}

static int may_talk(void *self, const struct api_request *req, struct api_response *res, struct error *err)
{
	(void)self, (void)res;
	return strcmp(req->param, "off") == 0 ? error_set(err, -EBUSY, "it is off") : 0;
}

/* What comes goes back, until "bye". */
static void *parrot(void *arg)
{
	int fd = *(int *)arg;
	char bytes[512];
	ssize_t n;

	free(arg);
	while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0 || (n < 0 && errno == EAGAIN)) {
		struct timespec nap = { .tv_nsec = 1000000 };

		if (n > 0 && memmem(bytes, (size_t)n, "bye", 3))
			break;
		if (n > 0)
			(void)send(fd, bytes, (size_t)n, MSG_NOSIGNAL);
		else
			(void)nanosleep(&nap, NULL);
	}
	(void)close(fd);
	return NULL;
}

static void talk(void *self, const struct api_request *req, int fd)
{
	int *own = malloc(sizeof(*own));
	pthread_t thread;

	(void)self;
	*own = dup(fd);
	(void)dprintf(fd, "%s,%s\n", req->param, req->query[0]);
	if (pthread_create(&thread, NULL, parrot, own) == 0)
		(void)pthread_detach(thread);
}

static const struct api_route routes[] = {
	{ "GET", "/v1/talk/{name}", may_talk, .query = { "loud" }, .upgrade = "parrot", .upgraded = talk },
	{ "GET", "/v1/wait/{name}", wait_for, .query = { "wait" } },
	{ "POST", "/v1/tell", tell },
	{ "GET", "/v1/big", big },
	{ "GET", "/v1/numbered/{name}", numbered },
	{ "POST", "/v1/keyed", keyed, .keyed = true, .matched = true },
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

	if (sd_event_new(&event) < 0 || api_server_new(&s, event, fd, routes, &keys, NULL, NULL, &err) < 0)
		return 1;
	serving = s;
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
	if (fd < 0 || chmod(path, 0666) < 0) /* users of the tests' own */
		return -1;
	(void)chmod(dir, 0755);
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

/* The request that the answer of this number was made for. */
static uint64_t made_for(unsigned number)
{
	char answer[4096], ask[96], tag[32];
	uint64_t asked = 0;
	const char *at;

	(void)snprintf(ask, sizeof(ask), "GET /v1/numbered/%u HTTP/1.1\r\nHost: v\r\nConnection: close\r\n\r\n", number);
	(void)snprintf(tag, sizeof(tag), "ETag: \"%u\"\r\n", number);
	raw(answer, ask, strlen(ask), 5000);
	assert_non_null(strstr(answer, tag));
	at = strstr(answer, "\"asked\":");
	assert_non_null(at);
	assert_int_equal(sscanf(at, "\"asked\":%" SCNu64, &asked), 1);
	return asked;
}

static void what_is_the_same_is_made_once(void **state)
{
	uint64_t first = made_for(1), other = made_for(2), again;

	(void)state;
	assert_int_not_equal(first, other);
	assert_int_equal(made_for(1), first);
	assert_int_equal(made_for(2), other);
	assert_true(made_for(1 + API_KEPT_MAX) > other); /* takes its place */
	again = made_for(1);
	assert_true(again > other);
	assert_int_equal(made_for(1), again);
	assert_int_not_equal(made_for(0), made_for(0)); /* no number */
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

static void long_heads_are_refused(void **state)
{
	static const struct {
		const char *start;
		size_t      len; /* of the x that follow */
		const char *answer;
	} cases[] = {
		{ "GET /v1/echo/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Trace: ", 6000, "HTTP/1.1 200 " },
		{ "GET /v1/echo/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Trace: ", API_HEAD_MAX, "HTTP/1.1 431 " },
		{ "GET /v1/echo/", API_HEAD_MAX, "HTTP/1.1 414 " },
	};
	char head[2 * API_HEAD_MAX], answer[4096];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t n = strlen(cases[i].start);

		memcpy(head, cases[i].start, n);
		memset(head + n, 'x', cases[i].len);
		memcpy(head + n + cases[i].len, "\r\n\r\n", 4);
		raw(answer, head, n + cases[i].len + 4, 5000);
		if (strncmp(answer, cases[i].answer, strlen(cases[i].answer)) != 0)
			fail_msg("case %zu: %.60s", i, answer);
	}
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

/* Another user's connection, where the tests are root: a socket has the effective user of connect(2). */
static int open_as(uid_t uid)
{
	int fd;

	assert_int_equal(seteuid(uid), 0);
	fd = open_raw();
	assert_int_equal(seteuid(0), 0);
	return fd;
}

static const char get_echo[] = "GET /v1/echo/a HTTP/1.1\r\nHost: x\r\n\r\n";

static void ask(int fd, const char *text)
{
	(void)send(fd, text, strlen(text), MSG_NOSIGNAL); /* who is cut off cannot, and its tests see that */
}

/* The status of the answer that comes next; 0: none came in that time, -1: it was cut off. */
static int status_of(int fd, unsigned ms)
{
	struct timeval wait = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	char answer[4096] = "";
	ssize_t n;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
	n = recv(fd, answer, sizeof(answer) - 1, 0);
	if (n <= 0)
		return n < 0 && errno == EAGAIN ? 0 : -1;
	if (strncmp(answer, "HTTP/1.1 503", 12) == 0 && !strstr(answer, "Retry-After: 1\r\n"))
		fail_msg("503 without Retry-After: %s", answer);
	return atoi(answer + strlen("HTTP/1.1 "));
}

/* A connection that was answered; the server sees a while later that others were closed, and refuses until then. */
static int open_answered(void)
{
	int fd, status;

	for (int tries = 0; tries < 250; tries++) {
		fd = open_raw();
		ask(fd, get_echo);
		status = status_of(fd, 5000);
		if (status == 200)
			return fd;
		assert_int_equal(status, 503);
		(void)close(fd);
		usleep(20000);
	}
	fail_msg("refused for 5 s");
	return -1;
}

static void requests_wait(void **state)
{
	int a = open_raw(), b = open_raw();
	struct api_reply reply;

	(void)state;
	ask(a, "GET /v1/wait/1?wait=30 HTTP/1.1\r\nHost: x\r\n\r\n");
	ask(b, "GET /v1/wait/2?wait=1 HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_int_equal(status_of(a, 100), 0);
	call_ok("GET", "/v1/echo/meanwhile", NULL, &reply);
	api_reply_done(&reply);
	assert_int_equal(status_of(b, 5000), 408); /* its time is over */
	assert_int_equal(status_of(a, 50), 0);
	call_ok("POST", "/v1/tell", NULL, &reply);
	api_reply_done(&reply);
	assert_int_equal(status_of(a, 5000), 200);
	ask(a, get_echo);
	assert_int_equal(status_of(a, 5000), 200); /* the connection goes on */
	ask(b, "GET /v1/wait/3?wait=30 HTTP/1.1\r\nHost: x\r\n\r\n");
	(void)close(b); /* goes while it waits */
	(void)close(a);
}

static void keys_are_heeded(void **state)
{
	int fd = open_raw();

	(void)state;
	ask(fd, "POST /v1/keyed HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(status_of(fd, 5000), 202);
	ask(fd, "POST /v1/keyed HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(status_of(fd, 5000), 200); /* answered by keys.begin() */
	ask(fd, "POST /v1/keyed HTTP/1.1\r\nHost: x\r\nIdempotency-Key: bad\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(status_of(fd, 5000), 422);
	ask(fd, "POST /v1/echo/a HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(status_of(fd, 5000), 400); /* it would not be heeded */
	ask(fd, "POST /v1/echo/a HTTP/1.1\r\nHost: x\r\nIf-Match: \"1\"\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(status_of(fd, 5000), 400); /* nor would this */
	ask(fd, "POST /v1/keyed HTTP/1.1\r\nHost: x\r\nIf-Match: \"1\"\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(status_of(fd, 5000), 202);
	ask(fd, "GET /v1/echo/a HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n\r\n");
	assert_int_equal(status_of(fd, 5000), 200);
	(void)close(fd);
}

static void one_user_may_have_so_much(void **state)
{
	int fd[API_UID_CONNECTIONS_MAX], more, status = 200;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		fd[i] = open_answered();
	more = open_raw();
	ask(more, get_echo);
	assert_int_equal(status_of(more, 5000), 503);
	(void)close(more);
	(void)close(fd[0]);
	fd[0] = open_answered();
	for (size_t i = 0; i < API_UID_REQUESTS_MAX; i++)
		ask(fd[i], "GET /v1/wait/1?wait=30 HTTP/1.1\r\nHost: x\r\n\r\n");
	for (int tries = 0; tries < 250 && status == 200; tries++) { /* until the server has seen them all */
		usleep(20000);
		ask(fd[API_UID_REQUESTS_MAX], get_echo);
		status = status_of(fd[API_UID_REQUESTS_MAX], 5000);
	}
	assert_int_equal(status, 503);
	for (size_t i = 0; i < API_UID_REQUESTS_MAX; i++)
		(void)close(fd[i]); /* nobody sees it, as they wait, until room is needed */
	more = open_answered();
	(void)close(more);
	for (size_t i = API_UID_REQUESTS_MAX; i < ARRAY_SIZE(fd); i++)
		(void)close(fd[i]);
}

/* Who lets large answers lie has no more of them; another user has. */
static void answers_that_nobody_takes(void **state)
{
	int fd[3];
	char c;

	(void)state;
	if (geteuid() != 0) {
		print_message("# not tested: users of their own (not root)\n");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		fd[i] = open_as(60001);
		ask(fd[i], "GET /v1/big HTTP/1.1\r\nHost: x\r\n\r\n");
		assert_int_equal(recv(fd[i], &c, 1, MSG_PEEK), 1); /* its answer is under way */
	}
	assert_int_equal(status_of(fd[2], 5000), 503);
	(void)close(fd[2]);
	fd[2] = open_raw();
	ask(fd[2], "GET /v1/big HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_int_equal(status_of(fd[2], 5000), 200);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		(void)close(fd[i]);
}

/* At the limit of all users the next one waits, and no longer than until one of the others goes. */
static void the_limit_is_no_dead_end(void **state)
{
	int fd[API_CONNECTIONS_MAX], waiting;

	(void)state;
	if (geteuid() != 0) {
		print_message("# not tested: users of their own (not root)\n");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		fd[i] = open_as(60000 + (uid_t)(i / API_UID_CONNECTIONS_MAX));
		ask(fd[i], get_echo);
		assert_int_equal(status_of(fd[i], 60000), 200); /* those of the tests before go when they are seen to */
	}
	waiting = open_as(61000);
	ask(waiting, get_echo);
	assert_int_equal(status_of(waiting, 200), 0);
	(void)close(fd[0]);
	assert_int_equal(status_of(waiting, 5000), 200);
	(void)close(waiting);
	for (size_t i = 1; i < ARRAY_SIZE(fd); i++)
		(void)close(fd[i]);
}

/* What one hostile client does next. */
static void attack(int fd, unsigned kind, unsigned round)
{
	static const char byte[] = "GET /v1/echo/a HTTP/1.1\r\nHost: x\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	static char deep[4096], many[4096];

	memset(deep, '[', sizeof(deep) - 1);
	for (size_t i = 0; i + 8 < sizeof(many); i += 8)
		memcpy(many + i, "X-a: b\r\n", 8);
	switch (kind) {
	case 0: /* silent */
		break;
	case 1: /* a byte now and then */
		(void)send(fd, byte + round % (sizeof(byte) - 1), 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		break;
	case 2: /* a body of 64 MiB, without a length */
		if (round == 0)
			ask(fd, "POST /v1/echo/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4000000\r\n");
		(void)send(fd, deep, sizeof(deep) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		break;
	case 3: /* headers without end */
		if (round == 0)
			ask(fd, "GET /v1/echo/a HTTP/1.1\r\nHost: x\r\n");
		(void)send(fd, many, sizeof(many), MSG_NOSIGNAL | MSG_DONTWAIT);
		break;
	case 4: /* an answer that nobody reads */
		(void)send(fd, "GET /v1/big HTTP/1.1\r\nHost: x\r\n\r\n", 34, MSG_NOSIGNAL | MSG_DONTWAIT);
		break;
	default: /* waits for ever */
		(void)send(fd, "GET /v1/wait/1?wait=60 HTTP/1.1\r\nHost: x\r\n\r\n", 45, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
}

static long resident_kib(pid_t pid)
{
	char name[64], line[256];
	long kib = 0;
	FILE *f;

	(void)snprintf(name, sizeof(name), "/proc/%d/status", (int)pid);
	f = fopen(name, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, "VmRSS:", 6) == 0)
			kib = atol(line + 6);
	(void)fclose(f);
	return kib;
}

static void hostile_clients_hurt_nobody(void **state)
{
	long before = resident_kib(server), after;
	int fd[64], honest;

	(void)state;
	if (geteuid() != 0) {
		print_message("# not tested: users of their own (not root)\n");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		fd[i] = open_as(60001);
	honest = open_raw();
	for (unsigned round = 0; round < 400; round++) {
		for (unsigned i = 0; i < ARRAY_SIZE(fd); i++)
			attack(fd[i], i % 6, round);
		ask(honest, get_echo);
		if (status_of(honest, 5000) != 200)
			fail_msg("the honest client had no answer in round %u", round);
	}
	after = resident_kib(server);
	if (!SANITIZED && after > before + (API_UID_BYTES_MAX >> 10) * 3) /* their answers, and once more each in libmicrohttpd */
		fail_msg("hostile clients made the server grow from %ld to %ld KiB", before, after);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		(void)close(fd[i]);
	(void)close(honest);
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

static void expect_heard(int fd, const char *text)
{
	char got[256] = "";
	size_t n = 0;

	while (n < strlen(text)) {
		ssize_t k = recv(fd, got + n, strlen(text) - n, 0);

		assert_true(k > 0);
		n += (size_t)k;
	}
	assert_string_equal(got, text);
}

/* More of them, one after the other and at once, than a user may have connections: they count no more. */
static void connections_are_given_away(void **state)
{
	static const char plain[] = "GET /v1/talk/x HTTP/1.1\r\nHost: v\r\n\r\n";
	struct velad_reply r;
	struct api_reply reply;
	struct error err = ERROR_INIT;
	int fd[API_UID_CONNECTIONS_MAX + 8];
	char c, answer[4096];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		assert_int_equal(velad_open(&r, &fd[i], path, "/v1/talk/train?loud=yes", "parrot"), 0);
		assert_int_equal(r.status, 101);
		expect_heard(fd[i], "train,yes\n");
		assert_int_equal(send(fd[i], "hello", 5, MSG_NOSIGNAL), 5);
	}
	call_ok("GET", "/v1/echo/x", NULL, &reply);
	api_reply_done(&reply);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		expect_heard(fd[i], "hello");
		assert_int_equal(send(fd[i], "bye", 3, MSG_NOSIGNAL), 3);
		assert_int_equal(recv(fd[i], &c, 1, 0), 0);
		(void)close(fd[i]);
	}
	assert_int_equal(api_open(&reply, &fd[0], path, "/v1/talk/off", "parrot", &err), -EBUSY);
	assert_string_equal(err.text, "it is off");
	api_reply_done(&reply);
	raw(answer, plain, strlen(plain), 500);
	assert_non_null(strstr(answer, "HTTP/1.1 400 "));
	assert_non_null(strstr(answer, "send Connection: Upgrade and Upgrade: parrot"));
	assert_int_equal(velad_open(&r, &fd[0], "/nonexistent/sock", "/v1/talk/x", "parrot"), -ECONNREFUSED);
	assert_non_null(strstr(r.error, "systemctl start velad.socket"));
	velad_reply_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_arrive),           cmocka_unit_test(what_is_the_same_is_made_once),
		cmocka_unit_test(problems_become_errors),
		cmocka_unit_test(answers_may_be_wrong),      cmocka_unit_test(nobody_there),
		cmocka_unit_test(large_bodies_are_refused), cmocka_unit_test(long_heads_are_refused),
		cmocka_unit_test(hostile_bytes_do_not_hurt),
		cmocka_unit_test(requests_wait),	     cmocka_unit_test(keys_are_heeded),
		cmocka_unit_test(one_user_may_have_so_much), cmocka_unit_test(answers_that_nobody_takes),
		cmocka_unit_test(the_limit_is_no_dead_end),  cmocka_unit_test(hostile_clients_hurt_nobody),
		cmocka_unit_test(sockets_are_not_stolen),    cmocka_unit_test(connections_are_given_away),
	};

	return cmocka_run_group_tests_name("server", tests, start, stop);
}
