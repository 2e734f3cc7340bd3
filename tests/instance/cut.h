/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* cut — the writes of this process below one directory, and the end of it at the k-th of them.
 *
 * The functions by which SQLite writes are defined here: a program's definitions win over those of the C library,
 * for its shared libraries as well (ld.so(8)). At write k the process is killed - before the write, or in the
 * middle of it - or the write fails. A power cut also takes away what no fsync has made safe: all of it, or, with a
 * seed, any of its sectors, as a disk's cache does. What is not taken back: unlink, and names of new files.
 *
 * Likewise the k-th malloc() of the process can fail (CUT_MEMORY), if the sanitizer has not its own. */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CUT_SECTOR 512 /* what a disk writes whole */

#if defined(__has_feature)
#define CUT_HAS_SANITIZER (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CUT_HAS_SANITIZER 1
#else
#define CUT_HAS_SANITIZER 0
#endif

/* Else malloc() is somebody else's: a sanitizer's, or valgrind's, which names its own in LD_PRELOAD. */
static inline bool cut_has_memory(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return !CUT_HAS_SANITIZER && !(preload && strstr(preload, "vgpreload_"));
}

enum cut_how { CUT_COUNT, CUT_KILL, CUT_KILL_HALF, CUT_POWER, CUT_ERROR, CUT_MEMORY };

struct cut_write { /* not yet safe; old == NULL and new == NULL: a change of size */
	char    path[96];
	off_t   at, size; /* size of the file before */
	size_t  n, had;   /* had: how much of n there was before */
	uint8_t *old, *new;
};

struct cut {
	enum cut_how how;
	unsigned     at;    /* the write at which it happens; 0 never */
	int          error; /* of CUT_ERROR */
	bool         lasts; /* so fail all from then on */
	uint32_t     seed;  /* of CUT_POWER; 0: nothing stays that was not safe */
	unsigned     calls, syncs;
	bool         fired;
	char         dir[64];
};

static struct cut      *cut_now; /* in shared memory; NULL: nothing is watched */
static struct cut_write cut_log[4096];
static size_t           cut_nlog;
static pthread_mutex_t  cut_lock = PTHREAD_MUTEX_INITIALIZER;

/* Else nothing will happen, and nobody counts. */
static inline bool cut_armed(void)
{
	return cut_now && (cut_now->how != CUT_COUNT || cut_now->at);
}

static inline bool cut_path(char path[96], int fd)
{
	char link[32];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, 95);
	if (n < 0)
		return false;
	path[n] = '\0';
	return strncmp(path, cut_now->dir, strlen(cut_now->dir)) == 0;
}

static inline void cut_put(const char *path, const void *data, size_t n, off_t at)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && syscall(SYS_pwrite64, fd, data, n, at) != (ssize_t)n)
		abort();
	if (fd >= 0)
		(void)close(fd);
}

/* Every file as it was when it was last safe, and then, with a seed, some of what was written since. */
static inline void cut_power(void)
{
	uint32_t x = cut_now->seed;

	for (size_t i = cut_nlog; i-- > 0;) {
		const struct cut_write *w = &cut_log[i];

		if (w->had)
			cut_put(w->path, w->old, w->had, w->at);
		if (truncate(w->path, w->size) < 0 && errno != ENOENT)
			abort();
	}
	for (size_t i = 0; cut_now->seed && i < cut_nlog; i++)
		for (size_t s = 0; s < cut_log[i].n; s += CUT_SECTOR) {
			size_t n = cut_log[i].n - s < CUT_SECTOR ? cut_log[i].n - s : CUT_SECTOR;

			x ^= x << 13;
			x ^= x >> 17;
			x ^= x << 5;
			if (x & 1)
				cut_put(cut_log[i].path, cut_log[i].new + s, n, cut_log[i].at + (off_t)s);
		}
}

static inline void cut_die(void)
{
	if (cut_now->how == CUT_POWER)
		cut_power();
	(void)raise(SIGKILL);
}

/* Counts; true if the call is to fail. */
static inline bool cut_point(bool writes)
{
	if (cut_now->how == CUT_MEMORY || (++cut_now->calls != cut_now->at && !(cut_now->lasts && cut_now->calls > cut_now->at)))
		return false;
	cut_now->fired = true;
	if (cut_now->how == CUT_KILL || cut_now->how == CUT_POWER || (cut_now->how == CUT_KILL_HALF && !writes))
		cut_die(); /* only a write has a middle */
	errno = cut_now->error;
	return cut_now->how == CUT_ERROR;
}

static inline void cut_note(int fd, const char *path, const void *data, size_t n, off_t at)
{
	struct cut_write *w = &cut_log[cut_nlog++];
	struct stat st;
	ssize_t had;

	if (cut_nlog >= sizeof(cut_log) / sizeof(cut_log[0]) || fstat(fd, &st) < 0)
		abort();
	*w = (struct cut_write){ .at = at, .size = st.st_size, .n = n };
	(void)snprintf(w->path, sizeof(w->path), "%s", path);
	if (!data) { /* a change of size: what is cut off */
		w->n = st.st_size > at ? (size_t)(st.st_size - at) : 0;
		n = w->n;
	}
	w->old = malloc(n ? n : 1);
	w->new = data ? malloc(n ? n : 1) : NULL;
	had = n ? pread(fd, w->old, n, at) : 0;
	w->had = had > 0 ? (size_t)had : 0;
	if (data)
		memcpy(w->new, data, n);
	else
		w->n = 0;
}

static inline ssize_t cut_write_at(int fd, const void *data, size_t n, off_t at)
{
	char path[96];
	ssize_t r = -1;
	bool mine;

	if (!cut_armed())
		return syscall(SYS_pwrite64, fd, data, n, at);
	(void)pthread_mutex_lock(&cut_lock);
	mine = cut_path(path, fd);
	if (!mine || !cut_point(true)) {
		bool half = mine && cut_now->how == CUT_KILL_HALF && cut_now->at == cut_now->calls;

		if (mine && cut_now->how == CUT_POWER)
			cut_note(fd, path, data, n, at);
		r = syscall(SYS_pwrite64, fd, data, half ? n / 2 : n, at);
		if (half)
			cut_die();
	}
	(void)pthread_mutex_unlock(&cut_lock);
	return r;
}

static inline int cut_sync(int fd)
{
	char path[96];
	int r = -1;
	bool mine;

	if (!cut_armed())
		return 0; /* likewise */
	(void)pthread_mutex_lock(&cut_lock);
	mine = cut_path(path, fd);
	if (!mine || !cut_point(false)) {
		size_t n = 0;

		for (size_t i = 0; i < cut_nlog; i++)
			if (mine && strcmp(cut_log[i].path, path) == 0) {
				free(cut_log[i].old);
				free(cut_log[i].new);
			} else {
				cut_log[n++] = cut_log[i];
			}
		cut_nlog = n;
		cut_now->syncs += mine;
		r = 0; /* the directory is in memory: there is nothing to wait for */
	}
	(void)pthread_mutex_unlock(&cut_lock);
	return r;
}

static inline int cut_resize(int fd, off_t size)
{
	char path[96];
	int r = -1;
	bool mine;

	if (!cut_armed())
		return (int)syscall(SYS_ftruncate, fd, size);
	(void)pthread_mutex_lock(&cut_lock);
	mine = cut_path(path, fd);
	if (!mine || !cut_point(false)) {
		if (mine && cut_now->how == CUT_POWER)
			cut_note(fd, path, NULL, 0, size);
		r = (int)syscall(SYS_ftruncate, fd, size);
	}
	(void)pthread_mutex_unlock(&cut_lock);
	return r;
}

/* with _FILE_OFFSET_BITS=64 these are pwrite64 and ftruncate64 */
ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
	return cut_write_at(fd, data, n, at);
}

int ftruncate(int fd, off_t size)
{
	return cut_resize(fd, size);
}

int fdatasync(int fd)
{
	return cut_sync(fd);
}

int fsync(int fd)
{
	return cut_sync(fd);
}

#if !CUT_HAS_SANITIZER
/* glibc's own names of its functions; all of the C library's calls come here, too (malloc(3) may be replaced) */
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);

static inline bool cut_memory(void)
{
	if (!cut_now || cut_now->how != CUT_MEMORY || __atomic_add_fetch(&cut_now->calls, 1, __ATOMIC_RELAXED) != cut_now->at)
		return false;
	cut_now->fired = true;
	errno = ENOMEM;
	return true;
}

/* json-c up to 0.16 does not look at what it got for the name of a member (json_tokener.c): the daemon dies there, and
 * recovers as after any kill. That one is not made to fail. */
char *strdup(const char *text)
{
	size_t n = strlen(text) + 1;
	Dl_info from = { 0 };
	bool json = cut_now && cut_now->how == CUT_MEMORY && dladdr(__builtin_return_address(0), &from) && from.dli_fname && strstr(from.dli_fname, "libjson-c");
	char *copy = json ? __libc_malloc(n) : malloc(n);

	return copy ? memcpy(copy, text, n) : NULL;
}

void *malloc(size_t n)
{
	return cut_memory() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return cut_memory() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return cut_memory() ? NULL : __libc_realloc(p, n);
}
#endif
