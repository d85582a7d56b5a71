/* SPDX-License-Identifier: MIT */
/* What events record. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/test/subjects.h"

static const char *const types_expected =
	"types:none\n"
	"types:unsigned_ a=255 b=65535 c=4294967295 d=18446744073709551615\n"
	"types:signed_ a=-128 b=-32768 c=-2147483648 d=-9223372036854775808\n"
	"types:hex a=0xff b=0xfffe c=0xfffffffd d=0xfffffffffffffffc\n"
	"types:other yes=1 no=0 f=1.5 d=-2.25\n"
	"types:strings a=\"abc\" null=\"(null)\" empty=\"\" t=\"de\" t_long=\"fghi\" t_null=\"(null)\""
	" s=\"lm\"\" s_null=\"(null)\"\n"
	"types:arrays a=[-1,0,1] null=[0,0] s=[0xab,0x1] s_null=[] s_empty=[] s_wide=[-70000]\n"
	"types:enums w=rain:1 d=below zero:-5 d2=above:odd:7 other=9\n"
	"types:many int=1 new=2 class=3 default=4 e=5 f=6 g=7 h=8 i=9 j=10 k=11 l=12 m=13 n=14 o=15"
	" p=16 q=17 r=18 s=19 t=20\n"
	"types:long_ first=\"short\" between=1 second=\"also\" rest=[1,2,3] last=2\n";

static void test_types(void **state)
{
	for (int host = 0; host < N_HOSTS; host++) {
		if (host_missing(host))
			continue;
		for (int language = 0; language < 2; language++) {
			struct fake *f = fake_new(false);
			struct fake_pool *p;
			pid_t pid;
			char *text, *cut;

			print_message("%s, %s\n", host_names[host], language ? "C++" : "C");
			subject_run(f, host, "types", language ? "cpp" : "c", &pid);
			p = fake_pool_of(f, pid);
			assert_non_null(p);
			text = without_tid(fake_records(f, p, 0), pid);
			cut = text + strlen(types_expected);
			assert_true(strlen(text) > strlen(types_expected));
			assert_int_equal(strncmp(text, types_expected, strlen(types_expected)), 0);
			/* Fixed parts: 1 + 4 + 1 + 2 + 4 of 4000; the first string takes the rest.
			 */
			assert_int_equal(strspn(cut + strlen("types:long_ first=\""), "x"), 3988);
			assert_non_null(strstr(cut, "\" between=1 second=\"\" rest=[] last=2\n"));
			assert_int_equal(count_in(cut, ",0"), (3979 / 8 - 3) + 3999);
			assert_int_equal(count_in(text, "\n"), 13);
			for (int why = 0; why < N_LOST_REASONS; why++)
				assert_int_equal(fake_lost(p, 0, why), 0);
			free(text);
			fake_free(f);
		}
	}
}

/* Two layouts of a name; one layout from two units. */
static void test_layouts(void **state)
{
	struct fake *f = fake_new(false);
	pid_t pid;
	char *text;

	subject_run(f, LINKED, "layouts", NULL, &pid);
	text = without_tid(fake_records(f, fake_pool_of(f, pid), 0), pid);
	assert_string_equal(text, "subject:twice n=5\n"
				  "subject:twice text=\"second layout\"\n"
				  "subject:tick n=1\n");
	free(text);
	fake_free(f);
}

static void test_printf(void **state)
{
	struct fake *f = fake_new(false);
	struct subject s;
	char *text;

	f->channels = 3;
	s = subject_start(f, LINKED, "printf", NULL);
	assert_string_equal(subject_hear(&s), "1 1");
	assert_int_equal(subject_end(&s), 0);
	text = fake_records(f, fake_pool_of(f, s.pid), 0);
	assert_int_equal(count_in(text, "varve:printf level=WARNING:4 file=\""), 1);
	assert_int_equal(count_in(text, " text=\"text and 42\"\n"), 1);
	assert_int_equal(count_in(text, "level=DEBUG:13"), 1);
	assert_int_equal(count_in(text, "y"), 1023 + count_in(text, "types"));
	free(text);
	fake_free(f);
}

/* Channels: a bit in the word, and one in the pool. */
static void test_channels(void **state)
{
	struct fake *f = fake_new(false);
	struct fake_pool *p;
	struct subject s;
	uint64_t n0, n1;

	f->word = 0;
	f->channels = 3;
	s = subject_start(f, LINKED, "steps", "5");
	subject_go_on(&s);
	subject_hear(&s);
	p = fake_pool_of(f, s.pid);
	assert_int_equal(fake_count(f, p, 0), 0);
	fake_enable(f, "subject:tick", 7);
	subject_go_on(&s);
	subject_hear(&s);
	fake_enable(f, "subject:tick", 2);
	subject_go_on(&s);
	subject_hear(&s);
	fake_enable(f, "subject:tick", 4);
	subject_go_on(&s);
	subject_hear(&s);
	n0 = fake_count(f, p, 0);
	n1 = fake_count(f, p, 1);
	assert_int_equal(n0, 1);
	assert_int_equal(n1, 2);
	atomic_store(&ring_header(&p->ring)->channels, 0);
	fake_enable(f, "subject:tick", 3);
	subject_go_on(&s);
	subject_hear(&s);
	assert_int_equal(subject_end(&s), 0);
	assert_int_equal(fake_count(f, p, 0), 1);
	fake_free(f);
}

/* Descriptions and ids that need several messages. */
static void test_many(void **state)
{
	struct fake *f = fake_new(false);
	char *text, *line;
	pid_t pid;
	int n = 0;

	subject_run(f, MANY, "", NULL, &pid);
	text = line = without_tid(fake_records(f, fake_pool_of(f, pid), 0), pid);
	for (; *line; line = strchr(line, '\n') + 1, n++) {
		char expected[200];

		snprintf(expected, sizeof(expected),
			"many:an_event_with_a_long_name_%03d number_of_the_event_called_%03d=%d\n",
			n, n, n);
		assert_int_equal(strncmp(line, expected, strlen(expected)), 0);
	}
	assert_int_equal(n, 500);
	free(text);
	fake_free(f);
}

/* Without restartable sequences, and with the other clock. */
static void test_lock_mode(void **state)
{
	struct fake *f;
	char *text;
	pid_t pid;

	for (int i = 0; i < 2; i++) {
		setenv(i ? "FAKE_CLOCK" : "GLIBC_TUNABLES", i ? "1" : "glibc.pthread.rseq=0", 1);
		f = fake_new(false);
		subject_run(f, LINKED, "types", "c", &pid);
		assert_int_equal(fake_pool_of(f, pid)->hello.mode, RING_LOCK);
		text = without_tid(fake_records(f, fake_pool_of(f, pid), 0), pid);
		assert_int_equal(strncmp(text, types_expected, strlen(types_expected)), 0);
		free(text);
		subject_run(f, LINKED, "signals", NULL, &pid);
		assert_true(fake_count(f, fake_pool_of(f, pid), 0) > 1000);
		fake_free(f);
		unsetenv(i ? "FAKE_CLOCK" : "GLIBC_TUNABLES");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_printf),
		cmocka_unit_test(test_channels),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_lock_mode),
	};

	return subjects_test(tests);
}
