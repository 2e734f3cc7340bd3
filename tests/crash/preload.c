/* SPDX-License-Identifier: GPL-2.0-or-later */
/* LD_PRELOAD for a real velad, velad-helper or what they start: counts the system calls that write (files and sockets), and
 * libvirt's calls, and at the k-th of either ends the process, fails, hangs or stops; and another time of day. $CRASH_CONTROL is
 * a file with struct control, shared with scene.py. Writes to standard error and to eventfds change nothing: not counted. In
 * velad-libvirt, which velad starts, libvirt's calls alone are. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libvirt/libvirt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum how { COUNT, KILL, FAIL, HANG, STOP };

struct point {
	uint32_t calls, at, fired, how; /* at: 0 never */
};

struct control {
	struct point write, virt;
	int32_t      error;  /* of FAIL, for files below dir; and all writes after it fail, too, until at is 0 */
	uint32_t     resume; /* ends what hangs */
	int64_t      clock;  /* seconds that the time of day is ahead */
	char         dir[64];
	char         only[32]; /* of libvirt's calls; "": all */
};

static struct control *control;
static int is_libvirts; /* this process is velad-libvirt */

__attribute__((constructor)) static void attach(void)
{
	const char *path = getenv("CRASH_CONTROL");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *at = fd >= 0 ? mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (at == MAP_FAILED) {
		(void)fprintf(stderr, "preload: $CRASH_CONTROL: %s\n", strerror(errno));
		_exit(70);
	}
	(void)close(fd);
	control = at;
	is_libvirts = strcmp(program_invocation_short_name, "velad-libvirt") == 0;
}

static int is_state(int fd)
{
	char link[32], path[256];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	return control->dir[0] && strncmp(path, control->dir, strlen(control->dir)) == 0;
}

/* True if this is the call. */
static int hit(struct point *p)
{
	uint32_t n = __atomic_add_fetch(&p->calls, 1, __ATOMIC_SEQ_CST);

	if (!p->at || n < p->at || p->how == COUNT || (p->how != FAIL && n > p->at))
		return 0;
	p->fired = 1;
	if (p->how == KILL || p->how == STOP)
		(void)kill(getpid(), p->how == KILL ? SIGKILL : SIGSTOP);
	return 1;
}

/* -1 with errno: the write is to fail. fd: -1 it is of a path. */
static int point(int fd)
{
	struct stat st;

	if (!control || is_libvirts || (fd >= 0 && (fd <= 2 || fstat(fd, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode)))))
		return 0;
	if (control->write.how == FAIL && (fd < 0 || !is_state(fd)))
		return 0;
	if (!hit(&control->write))
		return 0;
	errno = control->error;
	return -1;
}

ssize_t write(int fd, const void *data, size_t n)
{
	return point(fd) < 0 ? -1 : syscall(SYS_write, fd, data, n);
}

ssize_t writev(int fd, const struct iovec *iov, int n)
{
	return point(fd) < 0 ? -1 : syscall(SYS_writev, fd, iov, n);
}

/* with _FILE_OFFSET_BITS=64 this is pwrite64(); SQLite takes either */
ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
	return point(fd) < 0 ? -1 : syscall(SYS_pwrite64, fd, data, n, at);
}

int ftruncate(int fd, off_t size)
{
	return point(fd) < 0 ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int fsync(int fd)
{
	return point(fd) < 0 ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	return point(fd) < 0 ? -1 : (int)syscall(SYS_fdatasync, fd);
}

ssize_t send(int fd, const void *data, size_t n, int flags)
{
	return point(fd) < 0 ? -1 : syscall(SYS_sendto, fd, data, n, flags, NULL, 0);
}

ssize_t sendto(int fd, const void *data, size_t n, int flags, const struct sockaddr *to, socklen_t len)
{
	return point(fd) < 0 ? -1 : syscall(SYS_sendto, fd, data, n, flags, to, len);
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return point(fd) < 0 ? -1 : syscall(SYS_sendmsg, fd, msg, flags);
}

int rename(const char *from, const char *to)
{
	return point(-1) < 0 ? -1 : (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return point(-1) < 0 ? -1 : (int)syscall(SYS_renameat, from_dir, from, to_dir, to);
}

int unlink(const char *path)
{
	return point(-1) < 0 ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int dir, const char *path, int flags)
{
	return point(-1) < 0 ? -1 : (int)syscall(SYS_unlinkat, dir, path, flags);
}

/* ---- the time of day ------------------------------------------------------------------------------------------- */

time_t time(time_t *ret)
{
	struct timespec now;
	time_t t;

	(void)syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
	t = now.tv_sec + (control ? control->clock : 0);
	if (ret)
		*ret = t;
	return t;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ret);

	if (r == 0 && control && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		ret->tv_sec += control->clock;
	return r;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
	int r = (int)syscall(SYS_gettimeofday, ret, zone);

	if (r == 0 && control)
		ret->tv_sec += control->clock;
	return r;
}

/* ---- libvirt: what changes a domain, and what looks at one -------------------------------------------------------- */

static int virt_fails(const char *name)
{
	if (!control || (control->only[0] && strcmp(control->only, name) != 0) || !hit(&control->virt))
		return 0;
	while (control->virt.how == HANG && !control->resume)
		(void)syscall(SYS_nanosleep, &(struct timespec){ .tv_nsec = 5 * 1000 * 1000 }, NULL);
	return control->virt.how == FAIL;
}

#define VIRT(type, fails, name, params, args)                                   \
	type name params                                                        \
	{                                                                       \
		static type(*next) params;                                      \
		if (!next)                                                      \
			*(void **)&next = dlsym(RTLD_NEXT, #name);              \
		return virt_fails(#name) ? (fails) : next args;                      \
	}

VIRT(virConnectPtr, NULL, virConnectOpen, (const char *uri), (uri))
VIRT(int, -1, virConnectListAllDomains, (virConnectPtr c, virDomainPtr **all, unsigned flags), (c, all, flags))
VIRT(virDomainPtr, NULL, virDomainLookupByName, (virConnectPtr c, const char *name), (c, name))
VIRT(virDomainPtr, NULL, virDomainDefineXML, (virConnectPtr c, const char *xml), (c, xml))
VIRT(virDomainPtr, NULL, virDomainDefineXMLFlags, (virConnectPtr c, const char *xml, unsigned flags), (c, xml, flags))
VIRT(char *, NULL, virDomainGetMetadata, (virDomainPtr d, int type, const char *uri, unsigned flags), (d, type, uri, flags))
VIRT(int, -1, virDomainIsActive, (virDomainPtr d), (d))
VIRT(int, -1, virDomainCreate, (virDomainPtr d), (d))
VIRT(int, -1, virDomainDestroy, (virDomainPtr d), (d))
VIRT(int, -1, virDomainUndefine, (virDomainPtr d), (d))
VIRT(int, -1, virDomainUndefineFlags, (virDomainPtr d, unsigned flags), (d, flags))
VIRT(int, -1, virDomainShutdown, (virDomainPtr d), (d))
VIRT(int, -1, virDomainReboot, (virDomainPtr d, unsigned flags), (d, flags))
VIRT(int, -1, virDomainReset, (virDomainPtr d, unsigned flags), (d, flags))
