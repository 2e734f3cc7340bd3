/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Storage through libvirt (https://libvirt.org/html/libvirt-libvirt-storage.html): a pool of type dir, and qcow2 volumes in it. */
#include "act/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <libxml/parser.h>
#include <libxml/xpath.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "act/libvirt.h"
#include "act/seed.h"
#include "base/error.h"

AUTO_DEFINE(virConnectPtr, virConnectClose);
AUTO_DEFINE(virStoragePoolPtr, virStoragePoolFree);
AUTO_DEFINE(virStorageVolPtr, virStorageVolFree);

static int virt_error(struct error *err, const char *what, const char *name)
{
	char line[256];

	(void)snprintf(line, sizeof(line), "%s", virGetLastErrorMessage());
	for (char *p = line; *p; p++)
		*p = (unsigned char)*p < 0x20 ? ' ' : *p;
	return error_set(err, -EREMOTEIO, "cannot %s %s: %s", what, name, line);
}

/* ---- XML --------------------------------------------------------------------------------------------- */

/* Takes the document; the caller frees what is returned. NULL: no memory. */
static char *text_of(xmlDocPtr doc)
{
	xmlChar *text = NULL;
	char *copy;
	int n = 0;

	xmlDocDumpMemory(doc, &text, &n);
	copy = text ? strdup((const char *)text) : NULL;
	xmlFree(text);
	xmlFreeDoc(doc);
	return copy;
}

static xmlNodePtr add(xmlNodePtr to, const char *name, const char *text)
{
	return to ? xmlNewTextChild(to, NULL, (const xmlChar *)name, (const xmlChar *)text) : NULL;
}

static bool set(xmlNodePtr node, const char *name, const char *value)
{
	return node && xmlNewProp(node, (const xmlChar *)name, (const xmlChar *)value);
}

static xmlNodePtr new_root(xmlDocPtr *doc, const char *name)
{
	xmlNodePtr root = xmlNewNode(NULL, (const xmlChar *)name);

	*doc = xmlNewDoc((const xmlChar *)"1.0");
	if (*doc && root)
		(void)xmlDocSetRootElement(*doc, root);
	else
		xmlFreeNode(root);
	return *doc ? root : NULL;
}

static char *pool_xml(const struct act_images *at)
{
	xmlDocPtr doc = NULL;
	xmlNodePtr root = new_root(&doc, "pool"), target;
	bool ok = set(root, "type", "dir") && add(root, "name", at->pool);

	target = add(root, "target", NULL);
	ok = ok && add(target, "path", at->dir);
	if (ok)
		return text_of(doc);
	xmlFreeDoc(doc);
	return NULL;
}

static char *disk_xml(const struct act_disk *d, const char *dir)
{
	char size[24], path[PATH_MAX];
	xmlDocPtr doc = NULL;
	xmlNodePtr root = new_root(&doc, "volume"), target, below;
	bool ok;

	(void)snprintf(size, sizeof(size), "%" PRIu64, d->size);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, d->image ? d->image : "");
	ok = add(root, "name", d->name) && add(root, "capacity", size) && add(root, "allocation", "0");
	target = add(root, "target", NULL);
	ok = ok && set(add(target, "format", NULL), "type", "qcow2") && add(add(target, "permissions", NULL), "mode", "0600");
	if (ok && d->image) {
		below = add(root, "backingStore", NULL);
		ok = add(below, "path", path) && set(add(below, "format", NULL), "type", d->format);
	}
	if (ok)
		return text_of(doc);
	xmlFreeDoc(doc);
	return NULL;
}

/* What the pool says its directory is; the caller frees. NULL: none, or no memory. */
static char *pool_path(virStoragePoolPtr pool)
{
	autofree char *xml = virStoragePoolGetXMLDesc(pool, 0);
	xmlDocPtr doc = xml ? xmlReadMemory(xml, (int)strlen(xml), "pool", NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING) : NULL;
	xmlXPathContextPtr ctx = doc ? xmlXPathNewContext(doc) : NULL;
	xmlXPathObjectPtr found = ctx ? xmlXPathEvalExpression((const xmlChar *)"string(/pool[@type='dir']/target/path)", ctx) : NULL;
	char *path = found && found->stringval ? strdup((const char *)found->stringval) : NULL;

	xmlXPathFreeObject(found);
	xmlXPathFreeContext(ctx);
	xmlFreeDoc(doc);
	return path;
}

/* ---- the pool ---------------------------------------------------------------------------------------- */

/* Others may pass through it, and not list it: QEMU's user opens files by name. */
static int make_dir(const char *dir, struct error *err)
{
	if (mkdir(dir, 0711) == 0 ? chmod(dir, 0711) < 0 /* whatever the umask is */ : errno != EEXIST)
		return error_set(err, -errno, "cannot make %s, which is dir in [images] of velad.conf: %s", dir, strerror(errno));
	return 0;
}

static int define_pool(virStoragePoolPtr *ret, virConnectPtr conn, const struct act_images *at, struct error *err)
{
	autofree char *xml = pool_xml(at);
	int r = xml ? make_dir(at->dir, err) : error_set(err, -ENOMEM, "no memory for a storage pool");

	if (r < 0)
		return r;
	*ret = virStoragePoolDefineXML(conn, xml, 0);
	if (!*ret)
		return virt_error(err, "define the storage pool", at->pool);
	(void)virStoragePoolSetAutostart(*ret, 1); /* if not, it is started when it is needed */
	return 0;
}

static int check_pool(virStoragePoolPtr pool, const struct act_images *at, struct error *err)
{
	autofree char *path = pool_path(pool);

	if (!path || strcmp(path, at->dir) != 0)
		return error_set(err, -EREMOTEIO, "libvirt's storage pool %s is %s%s, and not the directory %s; set dir and pool in [images] of "
				 "velad.conf", at->pool, path && *path ? "of " : "no directory", path ? path : "", at->dir);
	return make_dir(at->dir, err);
}

/* Open, started, and as new as the directory. */
static int open_pool(struct act_storage *s, virConnectPtr *conn, virStoragePoolPtr *ret, struct error *err)
{
	auto_(virConnectClose) virConnectPtr c = NULL;
	auto_(virStoragePoolFree) virStoragePoolPtr pool = NULL;
	int r = s->at.pool ? act_virt_connection(s->virt, &c, err) : error_set(err, -ENODEV, "there is no place for images");

	if (r < 0)
		return r;
	pool = virStoragePoolLookupByName(c, s->at.pool);
	if (!pool && virGetLastErrorCode() != VIR_ERR_NO_STORAGE_POOL)
		return virt_error(err, "look for the storage pool", s->at.pool);
	r = pool ? check_pool(pool, &s->at, err) : define_pool(&pool, c, &s->at, err);
	if (r < 0)
		return r;
	if (virStoragePoolIsActive(pool) == 0 && virStoragePoolCreate(pool, 0) < 0)
		return virt_error(err, "start the storage pool", s->at.pool);
	if (virStoragePoolRefresh(pool, 0) < 0)
		return virt_error(err, "read the storage pool", s->at.pool);
	*ret = steal(pool);
	*conn = steal(c);
	return 0;
}

static int find_volume(virStorageVolPtr *ret, virStoragePoolPtr pool, const char *name, struct error *err)
{
	*ret = virStorageVolLookupByName(pool, name);
	if (!*ret && virGetLastErrorCode() != VIR_ERR_NO_STORAGE_VOL)
		return virt_error(err, "look for the volume", name);
	return 0;
}

/* What is no guest's to grow: images, seeds. */
static bool is_fixed(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && (strcmp(dot, ".image") == 0 || strcmp(dot, ".seed") == 0);
}

/* What the disks that are there may still take. */
static int promised(virStoragePoolPtr pool, uint64_t *ret, struct error *err)
{
	virStorageVolPtr *vol = NULL;
	int n = virStoragePoolListAllVolumes(pool, &vol, 0);

	if (n < 0)
		return virt_error(err, "list the storage pool", virStoragePoolGetName(pool));
	*ret = 0;
	for (int i = 0; i < n; i++) {
		virStorageVolInfo info;

		/* one that has just gone takes nothing */
		if (!is_fixed(virStorageVolGetName(vol[i])) && virStorageVolGetInfo(vol[i], &info) == 0 && info.capacity > info.allocation)
			*ret += info.capacity - info.allocation;
		(void)virStorageVolFree(vol[i]);
	}
	free(vol);
	return 0;
}

static int check_room(virStoragePoolPtr pool, const struct act_disk *d, struct error *err)
{
	virStoragePoolInfo info;
	uint64_t owed = 0;
	int r;

	if (virStoragePoolGetInfo(pool, &info) < 0)
		return virt_error(err, "read the storage pool", virStoragePoolGetName(pool));
	r = promised(pool, &owed, err);
	if (r == 0 && (info.available < owed || info.available - owed < d->size))
		return error_set(err, -ENOSPC, "%s may grow to %" PRIu64 " MiB; storage pool %s has %llu MiB free, and the disks in it may take %" PRIu64
				 " MiB of them: delete guests or images, or ask for less", d->name, d->size >> 20,
				 virStoragePoolGetName(pool), info.available >> 20, owed >> 20);
	return r;
}

/* ---- files in it ------------------------------------------------------------------------------------- */

static int in_dir(const struct act_storage *s, int *ret, struct error *err)
{
	*ret = s->at.dir ? open(s->at.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (*ret < 0 && s->at.dir && errno != ENOENT)
		return error_set(err, -errno, "cannot open %s, which is dir in [images] of velad.conf: %s", s->at.dir, strerror(errno));
	return 0;
}

static int look(struct act_storage *s, struct act_file *ret, const char *name, struct error *err)
{
	autoclose int dir = -1;
	struct stat st;
	int r = in_dir(s, &dir, err);

	*ret = (struct act_file){ 0 };
	if (r < 0 || dir < 0)
		return r;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : error_set(err, -errno, "cannot look at %s/%s: %s", s->at.dir, name, strerror(errno));
	*ret = (struct act_file){ .there = true, .size = st.st_size,
				  .mtime = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec };
	return 0;
}

/* libvirt's test driver has volumes without files. */
static int file(struct act_storage *s, struct act_file *ret, const char *name, struct error *err)
{
	auto_(virConnectClose) virConnectPtr conn = NULL;
	auto_(virStoragePoolFree) virStoragePoolPtr pool = NULL;
	auto_(virStorageVolFree) virStorageVolPtr vol = NULL;
	int r = look(s, ret, name, err);

	if (r < 0 || ret->there)
		return r;
	r = open_pool(s, &conn, &pool, err);
	if (r == 0)
		r = find_volume(&vol, pool, name, err);
	ret->there = vol;
	return r;
}

static int remove_file(const struct act_storage *s, const char *name, struct error *err)
{
	char temporary[NAME_MAX + 1];
	autoclose int dir = -1;
	int r = in_dir(s, &dir, err);

	if (r < 0 || dir < 0)
		return r;
	(void)snprintf(temporary, sizeof(temporary), ACT_FILE_NEW, name);
	if ((unlinkat(dir, name, 0) < 0 && errno != ENOENT) || (unlinkat(dir, temporary, 0) < 0 && errno != ENOENT))
		return error_set(err, -errno, "cannot delete %s/%s: %s", s->at.dir, name, strerror(errno));
	return 0;
}

static int drop(struct act_storage *s, const char *name, struct error *err)
{
	auto_(virConnectClose) virConnectPtr conn = NULL;
	auto_(virStoragePoolFree) virStoragePoolPtr pool = NULL;
	auto_(virStorageVolFree) virStorageVolPtr vol = NULL;
	int r = open_pool(s, &conn, &pool, err);

	if (r == 0)
		r = find_volume(&vol, pool, name, err);
	if (r == 0 && vol && virStorageVolDelete(vol, 0) < 0 && virGetLastErrorCode() != VIR_ERR_NO_STORAGE_VOL)
		r = virt_error(err, "delete the volume", name);
	return r < 0 ? r : remove_file(s, name, err); /* also what was being written */
}

static int make_disk(struct act_storage *s, const struct act_disk *d, struct error *err)
{
	auto_(virConnectClose) virConnectPtr conn = NULL;
	auto_(virStoragePoolFree) virStoragePoolPtr pool = NULL;
	auto_(virStorageVolFree) virStorageVolPtr vol = NULL;
	autofree char *xml = disk_xml(d, s->at.dir);
	int r = xml ? open_pool(s, &conn, &pool, err) : error_set(err, -ENOMEM, "no memory for a disk");

	if (r == 0)
		r = check_room(pool, d, err);
	if (r < 0)
		return r;
	vol = virStorageVolCreateXML(pool, xml, 0);
	return vol ? 0 : virt_error(err, "make the disk", d->name);
}

static int tell_libvirt(struct act_storage *s, struct error *err)
{
	auto_(virConnectClose) virConnectPtr conn = NULL;
	auto_(virStoragePoolFree) virStoragePoolPtr pool = NULL;

	return open_pool(s, &conn, &pool, err);
}

/* ---- one at a time ----------------------------------------------------------------------------------- */

/* A pool with a job is not read anew by libvirt (storageDriver, "asynchronous jobs running"), and two disks must not take the
 * same room. */
static int unlock(struct act_storage *s, int r)
{
	(void)pthread_mutex_unlock(&s->lock);
	return r;
}

int act_storage_file(struct act_storage *s, struct act_file *ret, const char *name, struct error *err)
{
	(void)pthread_mutex_lock(&s->lock);
	return unlock(s, file(s, ret, name, err));
}

int act_storage_drop(struct act_storage *s, const char *name, struct error *err)
{
	(void)pthread_mutex_lock(&s->lock);
	return unlock(s, drop(s, name, err));
}

int act_storage_disk(struct act_storage *s, const struct act_disk *disk, struct error *err)
{
	(void)pthread_mutex_lock(&s->lock);
	return unlock(s, make_disk(s, disk, err));
}

int act_storage_seed(struct act_storage *s, const char *name, const struct act_seed *seed, struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&s->lock);
	r = tell_libvirt(s, err);
	if (r == 0)
		r = act_seed_write(s->at.dir, name, seed, err);
	return unlock(s, r);
}

int act_storage_pool(struct act_storage *s, struct error *err)
{
	(void)pthread_mutex_lock(&s->lock);
	return unlock(s, tell_libvirt(s, err));
}
