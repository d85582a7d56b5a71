/* SPDX-License-Identifier: MIT */

/* CTF 1.8 metadata: see metadata.h. All types are aligned to 8 bits: records are byte-packed. */

#include "ctf/metadata.h"

#include <inttypes.h>
#include <string.h>

#include "varve/abi.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BYTE_ORDER_NAME "le"
#else
#define BYTE_ORDER_NAME "be"
#endif

/* A quoted string. What is not plain ASCII goes as octal escapes, three digits always. */
static void put_string(FILE *f, const char *s)
{
	putc('"', f);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
			fprintf(f, "\\%03o", c);
		else
			putc(c, f);
	}
	putc('"', f);
}

static void put_uuid(FILE *f, const uint8_t u[16])
{
	for (int i = 0; i < 16; i++)
		fprintf(f, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
}

static void put_integer_alias(FILE *f, const char *name, int bits, bool is_signed, const char *more)
{
	fprintf(f, "typealias integer { size = %d; align = 8; signed = %s; %s} := %s;\n", bits,
		is_signed ? "true" : "false", more, name);
}

static void put_aliases(FILE *f)
{
	char name[8];

	for (int bits = 8; bits <= 64; bits *= 2) {
		snprintf(name, sizeof(name), "u%d", bits);
		put_integer_alias(f, name, bits, false, "");
		snprintf(name, sizeof(name), "i%d", bits);
		put_integer_alias(f, name, bits, true, "");
		snprintf(name, sizeof(name), "x%d", bits);
		put_integer_alias(f, name, bits, false, "base = 16; ");
	}
	put_integer_alias(f, "utf8", 8, false, "encoding = UTF8; ");
	fputs("typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; } := f32;\n"
	      "typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := f64;\n\n",
		f);
}

static void put_env(FILE *f, const struct ctf_trace *t)
{
	unsigned int major = 0, minor = 0, patch = 0;

	sscanf(t->tracer_version, "%u.%u.%u", &major, &minor, &patch);
	fputs("env {\n\thostname = ", f);
	put_string(f, t->hostname);
	fprintf(f,
		";\n\tdomain = \"ust\";\n\ttracer_name = \"varve\";\n\ttracer_major = %u;\n"
		"\ttracer_minor = %u;\n\ttracer_patchlevel = %u;\n\tvarve_session = ",
		major, minor, patch);
	put_string(f, t->session);
	fputs(";\n};\n\n", f);
}

static void put_clock(FILE *f, const struct ctf_trace *t)
{
	char more[128];

	fprintf(f, "clock {\n\tname = %s;\n\tdescription = ", t->clock_name);
	put_string(f, t->clock_description);
	fprintf(f,
		";\n\tfreq = %" PRIu64 ";\n\toffset_s = %" PRId64 ";\n\toffset = %" PRIu64
		";\n\tabsolute = TRUE;\n};\n\n",
		t->clock_freq, t->clock_offset_s, t->clock_offset);
	snprintf(more, sizeof(more), "map = clock.%.64s.value; ", t->clock_name);
	put_integer_alias(f, "time32", 32, false, more);
	put_integer_alias(f, "time64", 64, false, more);
	putc('\n', f);
}

static void put_stream(FILE *f, uint32_t stream_class)
{
	bool merged = stream_class == CTF_CLASS_MERGED;

	fprintf(f, "stream {\n\tid = %u;\n", stream_class);
	fputs("\tevent.header := struct {\n"
	      "\t\tenum : u16 { compact = 0 ... 65534, extended = 65535 } id;\n"
	      "\t\tvariant <id> {\n"
	      "\t\t\tstruct { time32 timestamp; } compact;\n"
	      "\t\t\tstruct { u32 id; time64 timestamp; } extended;\n"
	      "\t\t} v;\n"
	      "\t};\n"
	      "\tpacket.context := struct {\n"
	      "\t\ttime64 timestamp_begin;\n"
	      "\t\ttime64 timestamp_end;\n"
	      "\t\tu64 content_size;\n"
	      "\t\tu64 packet_size;\n"
	      "\t\tu64 packet_seq_num;\n"
	      "\t\tu64 events_discarded;\n",
		f);
	if (!merged)
		fputs("\t\tu32 cpu_id;\n\t\tu32 vpid;\n\t\tu32 uid;\n\t\tutf8 procname[16];\n"
		      "\t\tu32 gen;\n",
			f);
	fputs("\t};\n\tevent.context := struct {\n", f);
	if (merged)
		fputs("\t\tu32 vpid;\n\t\tu32 uid;\n\t\tu32 cpu_id;\n\t\tutf8 procname[16];\n", f);
	fputs("\t\tu32 vtid;\n\t};\n};\n\n", f);
}

void ctf_metadata_head(FILE *f, const struct ctf_trace *t)
{
	fputs("/* CTF 1.8 */\n\n", f);
	put_aliases(f);
	fputs("trace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"", f);
	put_uuid(f, t->uuid);
	fputs("\";\n\tbyte_order = " BYTE_ORDER_NAME ";\n"
	      "\tpacket.header := struct {\n"
	      "\t\tu32 magic;\n\t\tu8 uuid[16];\n\t\tu32 stream_id;\n"
	      "\t\tu64 stream_instance_id;\n\t};\n};\n\n",
		f);
	put_env(f, t);
	put_clock(f, t);
	put_stream(f, CTF_CLASS_PROCESS);
	if (t->merged)
		put_stream(f, CTF_CLASS_MERGED);
}

/* --- fields ----------------------------------------------------------------------------------- */

/* Name of a type alias; NULL for those that have none. */
static const char *alias_of(uint8_t type)
{
	switch (type) {
	case VARVE_T_U8:
	case VARVE_T_BOOL:
		return "u8";
	case VARVE_T_U16:
		return "u16";
	case VARVE_T_U32:
		return "u32";
	case VARVE_T_U64:
		return "u64";
	case VARVE_T_I8:
		return "i8";
	case VARVE_T_I16:
		return "i16";
	case VARVE_T_I32:
		return "i32";
	case VARVE_T_I64:
		return "i64";
	case VARVE_T_X8:
		return "x8";
	case VARVE_T_X16:
		return "x16";
	case VARVE_T_X32:
		return "x32";
	case VARVE_T_X64:
		return "x64";
	case VARVE_T_F32:
		return "f32";
	case VARVE_T_F64:
		return "f64";
	default:
		return NULL;
	}
}

/* Bits of an integer type, negative for signed ones; 0 for other types. */
static int integer_bits(uint8_t type)
{
	switch (type) {
	case VARVE_T_U8:
	case VARVE_T_X8:
	case VARVE_T_BOOL:
		return 8;
	case VARVE_T_U16:
	case VARVE_T_X16:
		return 16;
	case VARVE_T_U32:
	case VARVE_T_X32:
		return 32;
	case VARVE_T_U64:
	case VARVE_T_X64:
		return 64;
	case VARVE_T_I8:
		return -8;
	case VARVE_T_I16:
		return -16;
	case VARVE_T_I32:
		return -32;
	case VARVE_T_I64:
		return -64;
	default:
		return 0;
	}
}

/* Whether an integer type of so many bits (negative: signed) holds the range low to high. */
static bool label_fits(const struct wire_label *l, int bits)
{
	if (bits == 0)
		return false;
	if (bits > 0) {
		uint64_t max = UINT64_MAX >> (64 - bits);

		return l->low <= l->high && l->high <= max;
	}
	int64_t low = (int64_t)l->low, high = (int64_t)l->high;
	int64_t max = INT64_MAX >> (64 + bits);

	return low <= high && low >= -max - 1 && high <= max;
}

static void put_value(FILE *f, uint64_t v, int bits)
{
	if (bits < 0)
		fprintf(f, "%" PRId64, (int64_t)v);
	else
		fprintf(f, "%" PRIu64, v);
}

static void put_enum_type(FILE *f, const struct wire_field *fd, int bits, const char *alias)
{
	const char *comma = "";

	for (uint32_t i = 0; i < fd->n_labels; i++) {
		const struct wire_label *l = &fd->labels[i];

		if (!label_fits(l, bits))
			continue;
		if (!*comma)
			fprintf(f, "enum : %s {", alias);
		fprintf(f, "%s ", comma);
		put_string(f, l->name);
		fputs(" = ", f);
		put_value(f, l->low, bits);
		if (l->low != l->high) {
			fputs(" ... ", f);
			put_value(f, l->high, bits);
		}
		comma = ",";
	}
	fputs(*comma ? " } " : alias, f);
	if (!*comma)
		putc(' ', f);
}

/* Names given within one event: two per field at most, with a number behind. */
struct names {
	uint32_t n;
	char name[2 * WIRE_FIELDS_MAX][WIRE_NAME_MAX + 32];
};

static bool name_taken(const struct names *ns, const char *name)
{
	for (uint32_t i = 0; i < ns->n; i++)
		if (strcmp(ns->name[i], name) == 0)
			return true;
	return false;
}

/* Enters `prefix name suffix`, with a number if that is taken; what is no identifier character
 * becomes an underscore. */
static const char *name_give(
	struct names *ns, const char *prefix, const char *name, const char *suffix)
{
	char *to = ns->name[ns->n];
	size_t len;

	snprintf(to, sizeof(ns->name[0]), "%s%.*s%s", prefix, (int)WIRE_NAME_MAX, name, suffix);
	for (char *c = to; *c; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
			    (*c >= '0' && *c <= '9')))
			*c = '_';
	len = strlen(to);
	for (unsigned int k = 2; name_taken(ns, to); k++)
		snprintf(to + len, sizeof(ns->name[0]) - len, "_%u", k);
	ns->n++;
	return to;
}

static void put_field(FILE *f, const struct wire_field *fd, struct names *ns)
{
	const char *alias = alias_of(fd->type), *element = alias_of(fd->element), *counter;

	switch (fd->type) {
	case VARVE_T_STR:
		fprintf(f, "\t\tstring { encoding = UTF8; } %s;\n",
			name_give(ns, "_", fd->name, ""));
		break;
	case VARVE_T_ARRAY:
	case VARVE_T_TEXT:
		fprintf(f, "\t\t%s %s[%" PRIu32 "];\n", fd->type == VARVE_T_TEXT ? "utf8" : element,
			name_give(ns, "_", fd->name, ""), fd->length);
		break;
	case VARVE_T_SEQ:
	case VARVE_T_TEXTSEQ:
		counter = name_give(ns, "__", fd->name, "_length");
		fprintf(f, "\t\tu16 %s;\n", counter);
		fprintf(f, "\t\t%s %s[%s];\n", fd->type == VARVE_T_TEXTSEQ ? "utf8" : element,
			name_give(ns, "_", fd->name, ""), counter);
		break;
	case VARVE_T_ENUM:
		fputs("\t\t", f);
		put_enum_type(f, fd, integer_bits(fd->element), element);
		fprintf(f, "%s;\n", name_give(ns, "_", fd->name, ""));
		break;
	default:
		fprintf(f, "\t\t%s %s;\n", alias, name_give(ns, "_", fd->name, ""));
		break;
	}
}

void ctf_metadata_event(FILE *f, uint32_t id, uint32_t stream_class, const struct wire_event *e)
{
	struct names ns; /* 20 KiB */
	char name[2 * WIRE_NAME_MAX + 2];

	ns.n = 0;
	snprintf(name, sizeof(name), "%s:%s", e->provider, e->name);
	fputs("event {\n\tname = ", f);
	put_string(f, name);
	fprintf(f, ";\n\tid = %" PRIu32 ";\n\tstream_id = %u;\n\tloglevel = %u;\n", id,
		stream_class, e->level);
	fputs("\tfields := struct {\n", f);
	for (uint32_t i = 0; i < e->n_fields && i < WIRE_FIELDS_MAX; i++)
		put_field(f, &e->fields[i], &ns);
	fputs("\t};\n};\n\n", f);
}

void ctf_clock_offset(uint64_t freq, uint64_t ticks, uint64_t unix_ns, int64_t *ret_offset_s,
	uint64_t *ret_offset)
{
	/* All in ticks of the clock: exact but for the rounding of unix_ns to one tick. */
	__int128 at = (__int128)unix_ns * freq / 1000000000 - ticks;
	__int128 s = at / freq;

	if (at % freq < 0)
		s--;
	*ret_offset_s = (int64_t)s;
	*ret_offset = (uint64_t)(at - s * freq);
}
