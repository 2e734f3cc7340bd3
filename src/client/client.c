/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The client library: libcurl over a Unix socket. Uses nothing else of the project, so that programs under
 * other licences may link it. */
#include <velad/client.h>

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_MAX ((size_t)256 * 1024 * 1024) /* a topology of 65,536 functions is some 60 MB */

struct sink {
	struct velad_reply *reply;
	size_t              size;
	int                 failed; /* negative errno */
};

static size_t on_data(char *data, size_t one, size_t n, void *self)
{
	struct sink *s = self;
	struct velad_reply *r = s->reply;

	n *= one;
	if (n >= REPLY_MAX - r->len) {
		s->failed = -E2BIG;
		return 0;
	}
	if (r->len + n >= s->size) {
		size_t size = (r->len + n + 1) * 2;
		char *p = realloc(r->body, size);

		if (!p) {
			s->failed = -ENOMEM;
			return 0;
		}
		r->body = p;
		s->size = size;
	}
	memcpy(r->body + r->len, data, n);
	r->len += n;
	r->body[r->len] = '\0';
	return n;
}

static int explain(CURL *c, CURLcode code, const struct sink *s, const char *socket)
{
	char *text = s->reply->error;
	size_t size = sizeof(s->reply->error);
	long os = 0;

	(void)curl_easy_getinfo(c, CURLINFO_OS_ERRNO, &os);
	if (code == CURLE_OPERATION_TIMEDOUT) {
		(void)snprintf(text, size, "velad did not answer on %s in time", socket);
		return -ETIMEDOUT;
	}
	if (code == CURLE_COULDNT_CONNECT && os == EACCES) {
		(void)snprintf(text, size, "may not talk to velad on %s: join the group velad, or use sudo", socket);
		return -EACCES;
	}
	if (code == CURLE_COULDNT_CONNECT) {
		(void)snprintf(text, size, "velad is not there on %s (%s): systemctl start velad.socket", socket,
			       os ? strerror((int)os) : curl_easy_strerror(code));
		return -ECONNREFUSED;
	}
	(void)snprintf(text, size, "talking to velad on %s: %s", socket,
		       s->failed ? strerror(-s->failed) : curl_easy_strerror(code));
	return s->failed ? s->failed : code == CURLE_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

static CURLcode perform(CURL *c, struct sink *s, struct curl_slist *headers, const char *socket, const char *method,
			const char *path, const char *body, long timeout_ms)
{
	long status = 0;
	CURLcode code;
	char url[1024];

	if (snprintf(url, sizeof(url), "http://velad%s", path) >= (int)sizeof(url))
		return CURLE_URL_MALFORMAT;
	(void)curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, socket);
	(void)curl_easy_setopt(c, CURLOPT_URL, url);
	(void)curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
	(void)curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
	(void)curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	if (body)
		(void)curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
	(void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, timeout_ms);
	(void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
	(void)curl_easy_setopt(c, CURLOPT_WRITEDATA, s);
	code = curl_easy_perform(c);
	if (code == CURLE_OK)
		code = curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	s->reply->status = (int)status;
	return code;
}

int velad_call(struct velad_reply *ret, const char *socket, const char *method, const char *path, const char *body,
	       long timeout_ms)
{
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	struct sink s = { .reply = ret };
	CURL *c = curl_easy_init();
	int r = 0;

	memset(ret, 0, sizeof(*ret));
	if (c && headers) {
		CURLcode code = perform(c, &s, headers, socket, method, path, body, timeout_ms);

		r = code == CURLE_OK ? 0 : explain(c, code, &s, socket);
	} else {
		(void)snprintf(ret->error, sizeof(ret->error), "no memory to talk to velad");
		r = -ENOMEM;
	}
	curl_slist_free_all(headers);
	curl_easy_cleanup(c);
	return r;
}

void velad_reply_done(struct velad_reply *r)
{
	free(r->body);
	memset(r, 0, sizeof(*r));
}
