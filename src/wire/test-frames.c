/* SPDX-License-Identifier: MIT */

/* Frames: what is sent comes out, however the bytes are cut; rubbish is refused. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/frames.h"

struct bytes {
	uint8_t data[65536];
	size_t len;
};

static void put(struct bytes *b, enum frame_type type, uint32_t file, uint64_t offset,
	const void *body, size_t len)
{
	struct frame_head h = frame_head_make(type, file, offset, (uint32_t)len);

	assert_true(b->len + sizeof(h) + len <= sizeof(b->data));
	memcpy(b->data + b->len, &h, sizeof(h));
	b->len += sizeof(h);
	if (len > 0)
		memcpy(b->data + b->len, body, len);
	b->len += len;
}

static void put_text(
	struct bytes *b, enum frame_type type, uint32_t file, uint64_t offset, const char *text)
{
	put(b, type, file, offset, text, strlen(text));
}

/* A receiver with two files in memory. */
struct got {
	uint32_t n_files, plan_files;
	uint64_t plan_bytes;
	char name[2][64];
	uint64_t size[2];
	char content[2][256];
	char end[128], error[128];
	int fail_data;
};

static int got_plan(void *arg, uint32_t n_files, uint64_t n_bytes)
{
	struct got *g = arg;

	g->plan_files = n_files;
	g->plan_bytes = n_bytes;
	return 0;
}

static int got_file(void *arg, uint32_t file, const char *name, uint64_t size)
{
	struct got *g = arg;

	assert_int_equal(file, g->n_files);
	assert_true(file < 2);
	strcpy(g->name[file], name);
	g->size[file] = size;
	g->n_files++;
	return 0;
}

static int got_data(void *arg, uint32_t file, uint64_t offset, const void *data, size_t len)
{
	struct got *g = arg;

	assert_true(offset + len <= sizeof(g->content[0]));
	memcpy(g->content[file] + offset, data, len);
	return g->fail_data;
}

static int got_end(void *arg, const char *json)
{
	strcpy(((struct got *)arg)->end, json);
	return 0;
}

static int got_error(void *arg, const char *line)
{
	strcpy(((struct got *)arg)->error, line);
	return 0;
}

static const struct frame_ops ops = { got_plan, got_file, got_data, got_end, got_error };

/* Decodes b in pieces of step bytes. */
static int decode(const struct bytes *b, size_t step, struct got *g, enum frame_state *ret_state)
{
	struct frame_decoder *d = malloc(sizeof(*d));
	int r = 0;

	assert_non_null(d);
	memset(g, 0, sizeof(*g));
	frame_decoder_init(d, &ops, g);
	for (size_t i = 0; i < b->len && r == 0; i += step)
		r = frame_decode(d, b->data + i, b->len - i < step ? b->len - i : step);
	*ret_state = d->state;
	free(d);
	return r;
}

static void whole_stream(struct bytes *b)
{
	b->len = 0;
	put(b, FRAME_PLAN, 2, 77, NULL, 0);
	put_text(b, FRAME_FILE, 0, 11, "ctf/lane_0");
	put_text(b, FRAME_FILE, 1, FRAME_SIZE_UNKNOWN, "report.json");
	put_text(b, FRAME_DATA, 0, 6, "world");
	put_text(b, FRAME_DATA, 1, 0, "grows");
	put_text(b, FRAME_DATA, 0, 0, "hello ");
	put_text(b, FRAME_DATA, 1, 5, " here");
	put_text(b, FRAME_DATA, 1, 1, "R");
	put_text(b, FRAME_END, 0, 0, "{}");
}

static void comes_out_whole(void **state)
{
	static struct bytes b;
	struct got g;
	enum frame_state st;

	whole_stream(&b);
	for (size_t step = 1; step <= b.len; step++) {
		assert_int_equal(decode(&b, step, &g, &st), 0);
		assert_int_equal(st, FRAME_ENDED);
		assert_int_equal(g.plan_files, 2);
		assert_int_equal(g.plan_bytes, 77);
		assert_string_equal(g.name[0], "ctf/lane_0");
		assert_string_equal(g.name[1], "report.json");
		assert_int_equal(g.size[0], 11);
		assert_true(g.size[1] == FRAME_SIZE_UNKNOWN);
		assert_string_equal(g.content[0], "hello world");
		assert_string_equal(g.content[1], "gRows here");
		assert_string_equal(g.end, "{}");
	}
}

static void error_ends(void **state)
{
	static struct bytes b;
	struct got g;
	enum frame_state st;

	b.len = 0;
	put_text(&b, FRAME_ERROR, 0, 0, "nothing recorded");
	assert_int_equal(decode(&b, 7, &g, &st), 0);
	assert_int_equal(st, FRAME_FAILED);
	assert_string_equal(g.error, "nothing recorded");
	put(&b, FRAME_PLAN, 0, 0, NULL, 0);
	assert_int_equal(decode(&b, b.len, &g, &st), -EBADMSG);
}

static void cut_short_is_no_end(void **state)
{
	static struct bytes b;
	struct got g;
	enum frame_state st;

	whole_stream(&b);
	b.len--;
	assert_int_equal(decode(&b, 5, &g, &st), 0);
	assert_int_equal(st, FRAME_MORE);
}

static void stops_with_callback(void **state)
{
	static struct bytes b;
	struct got g = { 0 };
	struct frame_decoder *d = malloc(sizeof(*d));

	assert_non_null(d);
	whole_stream(&b);
	g.fail_data = -ENOSPC;
	frame_decoder_init(d, &ops, &g);
	assert_int_equal(frame_decode(d, b.data, b.len), -ENOSPC);
	free(d);
}

/* Each stream here is wrong in its last frame alone. */
static void refuses(void **state)
{
	static struct bytes b;
	static const char *const bad_names[] = { "", "/etc/passwd", "ctf/", "ctf/../x", "ctf/.x",
		"ctf/a/b", "report.jsom", "ctf", "ctf/a b",
		"ctf/0123456789012345678901234567890123456789012345678901234567890" };
	struct got g;
	enum frame_state st;
	size_t good;

	b.len = 0; /* no PLAN */
	put_text(&b, FRAME_FILE, 0, 1, "ctf/a");
	assert_int_equal(decode(&b, 9, &g, &st), -EBADMSG);

	b.len = 0;
	put(&b, FRAME_PLAN, 1, 0, NULL, 0);
	good = b.len;
	for (size_t i = 0; i < sizeof(bad_names) / sizeof(*bad_names); i++) {
		b.len = good;
		put_text(&b, FRAME_FILE, 0, 1, bad_names[i]);
		assert_int_equal(decode(&b, 9, &g, &st), -EBADMSG);
	}
	b.len = good;
	put(&b, FRAME_PLAN, 1, 0, NULL, 0); /* twice */
	assert_int_equal(decode(&b, 9, &g, &st), -EBADMSG);
	b.len = good;
	put_text(&b, FRAME_FILE, 1, 1, "ctf/a"); /* not the next number */
	assert_int_equal(decode(&b, 9, &g, &st), -EBADMSG);
	b.len = good;
	put(&b, FRAME_FILE, 0, 1, "ctf/a\0b", 7);
	assert_int_equal(decode(&b, 9, &g, &st), -EBADMSG);
	b.len = good;
	put_text(&b, FRAME_DATA, 0, 0, "x"); /* of no file */
	assert_int_equal(decode(&b, 9, &g, &st), -EBADMSG);
	b.len = good;
	put(&b, (enum frame_type)9, 0, 0, "x", 1);
	assert_int_equal(decode(&b, 9, &g, &st), -EBADMSG);

	b.len = good;
	put_text(&b, FRAME_FILE, 0, 4, "ctf/a");
	put_text(&b, FRAME_FILE, 1, FRAME_SIZE_UNKNOWN, "ctf/b");
	assert_int_equal(decode(&b, 9, &g, &st), 0);
	good = b.len;
	put_text(&b, FRAME_DATA, 0, 0, "12345"); /* beyond its size */
	assert_int_equal(decode(&b, 9, &g, &st), -EBADMSG);
	b.len = good;
	put_text(&b, FRAME_DATA, 0, UINT64_MAX, "1");
	assert_int_equal(decode(&b, 9, &g, &st), -EBADMSG);
	b.len = good;
	put_text(&b, FRAME_DATA, 1, 1, "1"); /* a hole */
	assert_int_equal(decode(&b, 9, &g, &st), -EBADMSG);
	b.len = good;
	b.data[b.len] = 0xff; /* a wrong magic */
	memset(b.data + b.len, 0xff, sizeof(struct frame_head));
	b.len += sizeof(struct frame_head);
	assert_int_equal(decode(&b, 9, &g, &st), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_out_whole),
		cmocka_unit_test(error_ends),
		cmocka_unit_test(cut_short_is_no_end),
		cmocka_unit_test(stops_with_callback),
		cmocka_unit_test(refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
