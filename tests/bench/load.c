/* SPDX-License-Identifier: GPL-2.0-or-later */
/* load — how often a second, and how long each time:
 *   load CLIENTS SECONDS velad SOCKET METHOD:PATH... | velad SOCKET RESERVE:NAME|PLAN: |
 *                        libvirt URI version|dump NAME|show NAME|define NAME FILE | hostile SOCKET PATH
 * Each client has a connection of its own, and asks as soon as it has its answer. libvirt's clients are threads, because its library waits;
 * velad's are one thread with epoll(7), where they are several and neither RESERVE nor PLAN. Prints
 * "CALLS CALLS_PER_SECOND P50_US P99_US P999_US FAILED". hostile: connections that are silent, slow, send without end, or do
 * not read their answers of PATH; prints nothing. show: what an instance's document has of a domain, for who knows its name: three calls.
 * RESERVE is an instance made without a start, and deleted; define, a domain that is defined and undefined, with what libvirt's QEMU driver
 * does to its file and the test driver does not. For tests/bench/api. */
#include <fcntl.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES_MAX 4000000
#define CLIENTS_MAX 64

struct client {
	pthread_t     thread;
	unsigned      number;
	uint32_t     *us;
	size_t        n, failed;
	size_t        asked, have; /* of those that drive() has */
	uint64_t      from;
	char          answer[1 << 16];
	int           fd;
	virConnectPtr conn;
	virDomainPtr  domain;
};

static char **target;
static int ntargets;
static atomic_bool go, over;
static atomic_uint ended; /* clients with as many samples as there is room for */

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int connect_to(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	return connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 ? fd : -1;
}

static __thread char buf[1 << 20];

/* One request, one answer with a Content-Length, in buf. */
static bool exchange(struct client *c, int method_len, const char *method, const char *path, const char *sent)
{
	const char *body, *length;
	size_t have = 0, want = 0;
	int n = snprintf(buf, sizeof(buf), "%.*s %s HTTP/1.1\r\nHost: v\r\nContent-Length: %zu\r\n\r\n%s", method_len, method, path,
			 strlen(sent), sent);

	if (send(c->fd, buf, (size_t)n, MSG_NOSIGNAL) != n)
		return false;
	do {
		ssize_t got = recv(c->fd, buf + have, sizeof(buf) - 1 - have, 0);

		if (got <= 0)
			return false;
		have += (size_t)got;
		buf[have] = '\0';
		body = strstr(buf, "\r\n\r\n");
		length = body ? strcasestr(buf, "Content-Length:") : NULL;
		want = length ? (size_t)(body + 4 - buf) + strtoul(length + 15, NULL, 10) : 0;
	} while (!want || have < want);
	return strncmp(buf, "HTTP/1.1 20", 11) == 0;
}

/* Until the operation that the answer names is over. */
static bool await(struct client *c)
{
	const char *at = strstr(buf, "Location: ");
	char path[128];

	if (strstr(buf, "\"state\":\"succeeded\""))
		return true;
	if (!at || sscanf(at, "Location: %100[^\r]", path) != 1)
		return false;
	(void)strcat(path, "?wait=60");
	return exchange(c, 3, "GET", path, "") && strstr(buf, "\"state\":\"succeeded\"");
}

static bool reserve(struct client *c, const char *name)
{
	char body[256], path[128];

	(void)snprintf(body, sizeof(body), "{\"name\":\"%s-%u\",\"vcpus\":1,\"memory\":\"64M\",\"start\":false}", name, c->number);
	(void)snprintf(path, sizeof(path), "/v1/instances/%s-%u", name, c->number);
	return exchange(c, 4, "POST", "/v1/instances", body) && await(c) && exchange(c, 6, "DELETE", path, "") && await(c);
}

static bool ask(struct client *c, const char *what)
{
	const char *path = strchr(what, ':') + 1;

	if (strcmp(what, "PLAN:") == 0)
		return exchange(c, 4, "POST", "/v1/plans", "{\"gpus\":4,\"vfs_per_gpu\":1,\"vcpus\":4,\"memory\":\"1G\"}");
	return strncmp(what, "RESERVE:", 8) == 0 ? reserve(c, path) : exchange(c, (int)(path - what - 1), what, path, "");
}

/* A domain's file as virFileRewrite() writes it; that takes its bytes to the disk, and not its name. */
static bool write_file(const char *path, size_t len)
{
	char now[4096] = { 0 }, name[256];
	bool ok;
	int fd;

	(void)snprintf(name, sizeof(name), "%s.new", path);
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ok = fd >= 0 && write(fd, now, len) == (ssize_t)len && fsync(fd) == 0;
	if (fd >= 0)
		(void)close(fd);
	return ok && rename(name, path) == 0;
}

static bool define(struct client *c, const char *name, const char *file)
{
	virDomainPtr domain;
	char xml[512], path[200];
	bool ok;

	(void)snprintf(xml, sizeof(xml), "<domain type='test'><name>%s-%u</name><memory>65536</memory><vcpu>1</vcpu><os><type>hvm</type></os></domain>",
		       name, c->number);
	(void)snprintf(path, sizeof(path), "%s-%u", file, c->number);
	domain = virDomainDefineXML(c->conn, xml);
	ok = domain && write_file(path, 2000) && virDomainUndefine(domain) == 0 && unlink(path) == 0;
	if (domain)
		(void)virDomainFree(domain);
	return ok;
}

/* As virsh dumpxml and domstate do. */
static bool show(struct client *c, const char *name)
{
	virDomainPtr domain = virDomainLookupByName(c->conn, name);
	char *text = domain ? virDomainGetXMLDesc(domain, 0) : NULL;
	int state, reason;
	bool ok = text && virDomainGetState(domain, &state, &reason, 0) == 0;

	free(text);
	if (domain)
		(void)virDomainFree(domain);
	return ok;
}

static bool call_libvirt(struct client *c)
{
	unsigned long version;
	char *text;

	if (strcmp(target[1], "show") == 0)
		return show(c, target[2]);
	if (strcmp(target[1], "define") == 0)
		return define(c, target[2], target[3]);
	if (!c->domain)
		return virConnectGetLibVersion(c->conn, &version) == 0;
	text = virDomainGetXMLDesc(c->domain, 0);
	free(text);
	return text;
}

static void hostile(const char *path, const char *big, unsigned n, double seconds)
{
	int fd[CLIENTS_MAX];
	char junk[4096], get[128];
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);

	memset(junk, 'a', sizeof(junk));
	(void)snprintf(get, sizeof(get), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", big);
	for (unsigned i = 0; i < n; i++) {
		fd[i] = connect_to(path);
		if (i % 4 == 2)
			(void)send(fd[i], "POST /v1/plans HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4000000\r\n", 76, MSG_NOSIGNAL);
	}
	for (unsigned round = 0; now_ns() < end; round++, usleep(10000))
		for (unsigned i = 0; i < n; i++) {
			if (i % 4 == 1 && round % 100 == 0) /* a byte a second */
				(void)send(fd[i], "G", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (i % 4 == 2)
				(void)send(fd[i], junk, sizeof(junk), MSG_NOSIGNAL | MSG_DONTWAIT);
			if (i % 4 == 3)
				(void)send(fd[i], get, strlen(get), MSG_NOSIGNAL | MSG_DONTWAIT);
		}
}

static void *run(void *arg)
{
	struct client *c = arg;

	while (!go)
		usleep(1000);
	for (size_t i = 0; !over && c->n < SAMPLES_MAX / CLIENTS_MAX; i++) {
		uint64_t from = now_ns();

		c->failed += !(c->conn ? call_libvirt(c) : ask(c, target[1 + (int)(i % (size_t)(ntargets - 1))]));
		c->us[c->n++] = (uint32_t)((now_ns() - from) / 1000);
	}
	ended++;
	return NULL;
}

static bool send_request(struct client *c)
{
	const char *what = target[1 + (int)(c->asked++ % (size_t)(ntargets - 1))], *path = strchr(what, ':') + 1;
	char head[512];
	int n = snprintf(head, sizeof(head), "%.*s %s HTTP/1.1\r\nHost: v\r\n\r\n", (int)(path - what - 1), what, path);

	c->have = 0;
	c->from = now_ns();
	return send(c->fd, head, (size_t)n, MSG_NOSIGNAL) == n;
}

/* What came of an answer; with its last byte it is counted, and the next request sent. */
static bool take_answer(struct client *c)
{
	ssize_t got = recv(c->fd, c->answer + c->have, sizeof(c->answer) - 1 - c->have, 0);
	const char *body, *length;

	if (got <= 0)
		return false;
	c->have += (size_t)got;
	c->answer[c->have] = '\0';
	body = strstr(c->answer, "\r\n\r\n");
	length = body ? strstr(c->answer, "Content-Length:") : NULL;
	if (!length || c->have < (size_t)(body + 4 - c->answer) + strtoul(length + 15, NULL, 10))
		return true;
	c->failed += strncmp(c->answer, "HTTP/1.1 20", 11) != 0;
	c->us[c->n++] = (uint32_t)((now_ns() - c->from) / 1000);
	return send_request(c);
}

static void drive(struct client *client, unsigned n, double seconds)
{
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	struct epoll_event e[CLIENTS_MAX];
	int epoll = epoll_create1(0), many;
	bool room = true;

	for (unsigned i = 0; i < n; i++) {
		e[0] = (struct epoll_event){ .events = EPOLLIN, .data.ptr = &client[i] };
		client[i].failed += !send_request(&client[i]) || epoll_ctl(epoll, EPOLL_CTL_ADD, client[i].fd, e) < 0;
	}
	while (now_ns() < end && room && (many = epoll_wait(epoll, e, CLIENTS_MAX, 1000)) > 0)
		for (int i = 0; i < many; i++) {
			struct client *c = e[i].data.ptr;

			if (!take_answer(c)) {
				c->failed++;
				(void)epoll_ctl(epoll, EPOLL_CTL_DEL, c->fd, NULL);
			}
			room = room && c->n < SAMPLES_MAX / CLIENTS_MAX;
		}
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void quiet(void *self, virErrorPtr e)
{
	(void)self, (void)e;
}

int main(int argc, char **argv)
{
	static struct client client[CLIENTS_MAX];
	unsigned n = argc > 5 ? (unsigned)atoi(argv[1]) : 0;
	uint32_t *all = malloc(SAMPLES_MAX * sizeof(*all));
	size_t total = 0, failed = 0;
	uint64_t from, took;

	if (n < 1 || n > CLIENTS_MAX || !all)
		return 2;
	target = argv + 4;
	ntargets = argc - 4;
	if (strcmp(argv[3], "hostile") == 0) {
		hostile(target[0], target[1], n, atof(argv[2]));
		return 0;
	}
	virSetErrorFunc(NULL, quiet);
	for (unsigned i = 0; i < n; i++) {
		bool libvirt = strcmp(argv[3], "libvirt") == 0, waits = libvirt || strncmp(target[1], "RESERVE:", 8) == 0 || strcmp(target[1], "PLAN:") == 0;

		client[i] = (struct client){ .number = i, .us = malloc(SAMPLES_MAX / CLIENTS_MAX * sizeof(uint32_t)) };
		client[i].fd = libvirt ? -1 : connect_to(target[0]);
		client[i].conn = libvirt ? virConnectOpen(target[0]) : NULL;
		if (client[i].fd < 0 && !client[i].conn) {
			fprintf(stderr, "cannot connect to %s\n", target[0]);
			return 1;
		}
		if (libvirt && strcmp(target[1], "dump") == 0) {
			client[i].domain = virDomainLookupByName(client[i].conn, target[2]);
			if (!client[i].domain) {
				fprintf(stderr, "there is no domain %s\n", target[2]);
				return 1;
			}
		}
		if (n == 1 || waits)
			(void)pthread_create(&client[i].thread, NULL, run, &client[i]);
	}
	from = now_ns();
	go = true;
	if (!client[0].thread)
		drive(client, n, atof(argv[2]));
	for (uint64_t end = from + (uint64_t)(atof(argv[2]) * 1e9); client[0].thread && now_ns() < end && ended < n; usleep(1000))
		;
	over = true;
	for (unsigned i = 0; i < n && client[i].thread; i++)
		(void)pthread_join(client[i].thread, NULL);
	took = now_ns() - from;
	for (unsigned i = 0; i < n; i++) {
		memcpy(all + total, client[i].us, client[i].n * sizeof(*all));
		total += client[i].n;
		failed += client[i].failed;
	}
	qsort(all, total, sizeof(*all), compare);
	printf("%zu %.0f %u %u %u %zu\n", total, (double)total * 1e9 / (double)took, all[total / 2], all[total * 99 / 100], all[total * 999 / 1000], failed);
	return failed != 0;
}
