/* SPDX-License-Identifier: MIT */
#ifndef VARVE_FIELD_H
#define VARVE_FIELD_H

/*
 * What each kind of field of an event means, for <varve/varve.h>. An operation is applied to every
 * field (type, name, ...) of an event:
 *
 *	CHECK      static assertions, so that wrong use stops the compile with a sentence
 *	DESCRIBE   its struct varve_field
 *	FIXED      "+ bytes" that it takes at least
 *	PARAMETER  ", type name" of the generated function; PASS: the same as arguments
 *	MEASURE    statements: what it takes beyond FIXED, out of varve__left
 *	PUT        statements: append it at varve__p
 *
 * VARVE__PUT((str, f)) becomes VARVE__PUT_STR(str, f): the type's VARVE__KIND_ says which.
 */

#include <varve/abi.h>
#include <varve/list.h>

#ifdef __cplusplus
#define VARVE__ASSERT(condition, text) static_assert(condition, text)
#define VARVE__NULL		       nullptr
#define VARVE__BOOL		       bool
#else
#define VARVE__ASSERT(condition, text) _Static_assert(condition, text)
#define VARVE__NULL		       ((void *)0)
#define VARVE__BOOL		       _Bool
#endif
#define VARVE__INLINE	__attribute__((always_inline, unused))
#define VARVE__NOINLINE __attribute__((noinline, unused))

/* clang-format off */
/* --- one field: for each kind of field what it means to check, describe, measure, put it ------ */

#define VARVE__CHECK(x)	    VARVE__FIELD(CHECK, x)
#define VARVE__DESCRIBE(x)  VARVE__FIELD(DESCRIBE, x)
#define VARVE__FIXED(x)	    VARVE__FIELD(FIXED, x)
#define VARVE__PARAMETER(x) VARVE__FIELD(PARAMETER, x)
#define VARVE__PASS(x)	    VARVE__FIELD(PASS, x)
#define VARVE__MEASURE(x)   VARVE__FIELD(MEASURE, x)
#define VARVE__PUT(x)	    VARVE__FIELD(PUT, x)

#define VARVE__FIELD(op, x) VARVE__CAT(VARVE__FIELD_, VARVE__PARENTHESES(x))(op, x)
#define VARVE__FIELD_0(op, x) VARVE__##op##_BARE(x)
#define VARVE__FIELD_1(op, x)                                                                      \
	VARVE__CAT(VARVE__##op##_, VARVE__FORM(VARVE__KIND x, VARVE__COUNT x)) x
/* Its kind, if it has as many parts as a field of that kind; else BADFORM or UNKNOWN. */
#define VARVE__FORM(kind, count) VARVE__FORM_(kind, count)
#define VARVE__FORM_(kind, count) VARVE__SECOND(VARVE__FORM_##kind##_##count, VARVE__ELSE_##kind, ~)
#define VARVE__FORM_NUMBER_2 ~, NUMBER
#define VARVE__FORM_STR_2 ~, STR
#define VARVE__FORM_ARRAY_4 ~, ARRAY
#define VARVE__FORM_SEQ_3 ~, SEQ
#define VARVE__FORM_TEXT_3 ~, TEXT
#define VARVE__FORM_TEXTSEQ_2 ~, TEXTSEQ
#define VARVE__FORM_ENUM_4 ~, ENUM
#define VARVE__ELSE_NUMBER BADFORM
#define VARVE__ELSE_STR BADFORM
#define VARVE__ELSE_ARRAY BADFORM
#define VARVE__ELSE_SEQ BADFORM
#define VARVE__ELSE_TEXT BADFORM
#define VARVE__ELSE_TEXTSEQ BADFORM
#define VARVE__ELSE_ENUM BADFORM
#define VARVE__ELSE_UNKNOWN UNKNOWN
#define VARVE__HOW_NUMBER "(type, name)"
#define VARVE__HOW_STR "(str, name)"
#define VARVE__HOW_ARRAY "(array, type, name, length)"
#define VARVE__HOW_SEQ "(seq, type, name)"
#define VARVE__HOW_TEXT "(text, name, length)"
#define VARVE__HOW_TEXTSEQ "(textseq, name)"
#define VARVE__HOW_ENUM "(enumeration, type, name, NAME of a VARVE_ENUM)"
#define VARVE__KIND(type, ...) VARVE__SECOND(VARVE__KIND_##type, UNKNOWN, ~)
#define VARVE__KIND_str ~, STR
#define VARVE__KIND_array ~, ARRAY
#define VARVE__KIND_seq ~, SEQ
#define VARVE__KIND_text ~, TEXT
#define VARVE__KIND_textseq ~, TEXTSEQ
#define VARVE__KIND_enumeration ~, ENUM

/* Numbers: kind, C type, enum varve_type, whether they may carry an enumeration. stdbool.h makes
 * _Bool of bool before we see it. */
#define VARVE__KIND_u8 ~, NUMBER
#define VARVE__KIND_u16 ~, NUMBER
#define VARVE__KIND_u32 ~, NUMBER
#define VARVE__KIND_u64 ~, NUMBER
#define VARVE__KIND_i8 ~, NUMBER
#define VARVE__KIND_i16 ~, NUMBER
#define VARVE__KIND_i32 ~, NUMBER
#define VARVE__KIND_i64 ~, NUMBER
#define VARVE__KIND_x8 ~, NUMBER
#define VARVE__KIND_x16 ~, NUMBER
#define VARVE__KIND_x32 ~, NUMBER
#define VARVE__KIND_x64 ~, NUMBER
#define VARVE__KIND_float ~, NUMBER
#define VARVE__KIND_double ~, NUMBER
#define VARVE__KIND_bool ~, NUMBER
#define VARVE__KIND__Bool ~, NUMBER
#define VARVE__C_u8 uint8_t
#define VARVE__C_u16 uint16_t
#define VARVE__C_u32 uint32_t
#define VARVE__C_u64 uint64_t
#define VARVE__C_i8 int8_t
#define VARVE__C_i16 int16_t
#define VARVE__C_i32 int32_t
#define VARVE__C_i64 int64_t
#define VARVE__C_x8 uint8_t
#define VARVE__C_x16 uint16_t
#define VARVE__C_x32 uint32_t
#define VARVE__C_x64 uint64_t
#define VARVE__C_float float
#define VARVE__C_double double
#define VARVE__C_bool VARVE__BOOL
#define VARVE__C__Bool VARVE__BOOL
#define VARVE__T_u8 VARVE_T_U8
#define VARVE__T_u16 VARVE_T_U16
#define VARVE__T_u32 VARVE_T_U32
#define VARVE__T_u64 VARVE_T_U64
#define VARVE__T_i8 VARVE_T_I8
#define VARVE__T_i16 VARVE_T_I16
#define VARVE__T_i32 VARVE_T_I32
#define VARVE__T_i64 VARVE_T_I64
#define VARVE__T_x8 VARVE_T_X8
#define VARVE__T_x16 VARVE_T_X16
#define VARVE__T_x32 VARVE_T_X32
#define VARVE__T_x64 VARVE_T_X64
#define VARVE__T_float VARVE_T_F32
#define VARVE__T_double VARVE_T_F64
#define VARVE__T_bool VARVE_T_BOOL
#define VARVE__T__Bool VARVE_T_BOOL
#define VARVE__ELEMENT_u8 ~, 2
#define VARVE__ELEMENT_u16 ~, 2
#define VARVE__ELEMENT_u32 ~, 2
#define VARVE__ELEMENT_u64 ~, 2
#define VARVE__ELEMENT_i8 ~, 2
#define VARVE__ELEMENT_i16 ~, 2
#define VARVE__ELEMENT_i32 ~, 2
#define VARVE__ELEMENT_i64 ~, 2
#define VARVE__ELEMENT_x8 ~, 2
#define VARVE__ELEMENT_x16 ~, 2
#define VARVE__ELEMENT_x32 ~, 2
#define VARVE__ELEMENT_x64 ~, 2
#define VARVE__ELEMENT_float ~, 1
#define VARVE__ELEMENT_double ~, 1
#define VARVE__ELEMENT_bool ~, 0
#define VARVE__ELEMENT__Bool ~, 0
/* 2: any integer, 1: float or double, 0: no element of arrays and enumerations. */
#define VARVE__ELEMENT(type) VARVE__SECOND(VARVE__ELEMENT_##type, 0, ~)

#define VARVE__CHECK_NAME(f) VARVE__ASSERT(sizeof(#f) <= 128, "varve: too long a field name: " #f);
#define VARVE__CHECK_LENGTH(n, f)                                                                  \
	VARVE__ASSERT((n) >= 1 && (n) <= VARVE_RECORD_MAX,                                         \
		"varve: the length of field '" #f "' must be 1 to VARVE_RECORD_MAX, not " #n);
#define VARVE__CHECK_ELEMENT(least, type, f)                                                       \
	VARVE__ASSERT(VARVE__ELEMENT(type) >= least,                                               \
		"varve: field '" #f "' cannot be made of '" #type "'");

/* No field at all: the message, and something that brings few others. */
#define VARVE__CHECK_BARE(x)                                                                       \
	VARVE__ASSERT(0, "varve: '" #x "' is no field: fields are (type, name), in parentheses");
#define VARVE__DESCRIBE_BARE(x)
#define VARVE__FIXED_BARE(x)
#define VARVE__PARAMETER_BARE(x) , int
#define VARVE__PASS_BARE(x) , 0
#define VARVE__MEASURE_BARE(x)
#define VARVE__PUT_BARE(x)

#define VARVE__CHECK_UNKNOWN(type, ...)                                                            \
	VARVE__ASSERT(0, "varve: unknown type '" #type "' of field '" #__VA_ARGS__ "'");
#define VARVE__DESCRIBE_UNKNOWN(...)
#define VARVE__FIXED_UNKNOWN(...)
#define VARVE__PARAMETER_UNKNOWN(...) , int
#define VARVE__PASS_UNKNOWN(...) , 0
#define VARVE__MEASURE_UNKNOWN(...)
#define VARVE__PUT_UNKNOWN(...)

#define VARVE__CHECK_BADFORM(...)                                                                  \
	VARVE__ASSERT(0, "varve: field (" #__VA_ARGS__ ") is not of the form "                     \
		VARVE__CAT(VARVE__HOW_, VARVE__KIND(__VA_ARGS__, ~)));
#define VARVE__DESCRIBE_BADFORM(...)
#define VARVE__FIXED_BADFORM(...)
#define VARVE__PARAMETER_BADFORM(...) , int
#define VARVE__PASS_BADFORM(...) , 0
#define VARVE__MEASURE_BADFORM(...)
#define VARVE__PUT_BADFORM(...)

/* (u32, f) and the like */
#define VARVE__CHECK_NUMBER(type, f) VARVE__CHECK_NAME(f)
#define VARVE__DESCRIBE_NUMBER(type, f) { #f, VARVE__T_##type, 0, 0, 0, VARVE__NULL },
#define VARVE__FIXED_NUMBER(type, f) + sizeof(VARVE__C_##type)
#define VARVE__PARAMETER_NUMBER(type, f) , VARVE__C_##type f##_
#define VARVE__PASS_NUMBER(type, f) , f##_
#define VARVE__MEASURE_NUMBER(type, f)
#define VARVE__PUT_NUMBER(type, f) varve__p = varve__put(varve__p, &f##_, sizeof(f##_));

/* (str, f) */
#define VARVE__CHECK_STR(type, f) VARVE__CHECK_NAME(f)
#define VARVE__DESCRIBE_STR(type, f) { #f, VARVE_T_STR, 0, 0, 0, VARVE__NULL },
#define VARVE__FIXED_STR(type, f) + 1
#define VARVE__PARAMETER_STR(type, f) , const char *f##_
#define VARVE__PASS_STR(type, f) , f##_
#define VARVE__MEASURE_STR(type, f) size_t f##__n = varve__measure_str(&f##_, &varve__left);
#define VARVE__PUT_STR(type, f) varve__p = varve__put_str(varve__p, f##_, f##__n);

/* (array, T, f, N) */
#define VARVE__CHECK_ARRAY(kind, type, f, n)                                                       \
	VARVE__CHECK_NAME(f)                                                                       \
	VARVE__CHECK_ELEMENT(1, type, f)                                                           \
	VARVE__CHECK_LENGTH(n, f)
#define VARVE__DESCRIBE_ARRAY(kind, type, f, n)                                                    \
	{ #f, VARVE_T_ARRAY, VARVE__T_##type, 0, (uint32_t)(n), VARVE__NULL },
#define VARVE__FIXED_ARRAY(kind, type, f, n) + (n) * sizeof(VARVE__C_##type)
#define VARVE__PARAMETER_ARRAY(kind, type, f, n) , const VARVE__C_##type *f##_
#define VARVE__PASS_ARRAY(kind, type, f, n) , f##_
#define VARVE__MEASURE_ARRAY(kind, type, f, n)
#define VARVE__PUT_ARRAY(kind, type, f, n)                                                         \
	varve__p = varve__put_array(varve__p, f##_, (size_t)(n) * sizeof(VARVE__C_##type));

/* (seq, T, f) */
#define VARVE__CHECK_SEQ(kind, type, f)                                                            \
	VARVE__CHECK_NAME(f)                                                                       \
	VARVE__CHECK_ELEMENT(1, type, f)
#define VARVE__DESCRIBE_SEQ(kind, type, f)                                                         \
	{ #f, VARVE_T_SEQ, VARVE__T_##type, 0, 0, VARVE__NULL },
#define VARVE__FIXED_SEQ(kind, type, f) + 2
#define VARVE__PARAMETER_SEQ(kind, type, f) , const VARVE__C_##type *f##_, size_t f##__count
#define VARVE__PASS_SEQ(kind, type, f) , f##_, f##__count
#define VARVE__MEASURE_SEQ(kind, type, f)                                                          \
	f##__count = varve__measure_seq(f##_, f##__count, sizeof(*f##_), &varve__left);
#define VARVE__PUT_SEQ(kind, type, f)                                                              \
	varve__p = varve__put_seq(varve__p, f##_, f##__count, sizeof(*f##_));

/* (text, f, N) */
#define VARVE__CHECK_TEXT(kind, f, n)                                                              \
	VARVE__CHECK_NAME(f)                                                                       \
	VARVE__CHECK_LENGTH(n, f)
#define VARVE__DESCRIBE_TEXT(kind, f, n) { #f, VARVE_T_TEXT, 0, 0, (uint32_t)(n), VARVE__NULL },
#define VARVE__FIXED_TEXT(kind, f, n) + (n)
#define VARVE__PARAMETER_TEXT(kind, f, n) , const char *f##_
#define VARVE__PASS_TEXT(kind, f, n) , f##_
#define VARVE__MEASURE_TEXT(kind, f, n)
#define VARVE__PUT_TEXT(kind, f, n) varve__p = varve__put_text(varve__p, f##_, (size_t)(n));

/* (textseq, f) */
#define VARVE__CHECK_TEXTSEQ(kind, f) VARVE__CHECK_NAME(f)
#define VARVE__DESCRIBE_TEXTSEQ(kind, f) { #f, VARVE_T_TEXTSEQ, 0, 0, 0, VARVE__NULL },
#define VARVE__FIXED_TEXTSEQ(kind, f) + 2
#define VARVE__PARAMETER_TEXTSEQ(kind, f) , const char *f##_, size_t f##__count
#define VARVE__PASS_TEXTSEQ(kind, f) , f##_, f##__count
#define VARVE__MEASURE_TEXTSEQ(kind, f)                                                            \
	f##__count = varve__measure_textseq(&f##_, f##__count, &varve__left);
#define VARVE__PUT_TEXTSEQ(kind, f) varve__p = varve__put_seq(varve__p, f##_, f##__count, 1);

/* (enumeration, T, f, NAME) */
#define VARVE__CHECK_ENUM(kind, type, f, labels)                                                   \
	VARVE__CHECK_NAME(f)                                                                       \
	VARVE__CHECK_ELEMENT(2, type, f)
#define VARVE__DESCRIBE_ENUM(kind, type, f, labels)                                                \
	{ #f, VARVE_T_ENUM, VARVE__T_##type,                                                       \
		(uint16_t)(sizeof(varve_enum_##labels) / sizeof(varve_enum_##labels[0])), 0,       \
		varve_enum_##labels },
#define VARVE__FIXED_ENUM(kind, type, f, labels) + sizeof(VARVE__C_##type)
#define VARVE__PARAMETER_ENUM(kind, type, f, labels) , VARVE__C_##type f##_
#define VARVE__PASS_ENUM(kind, type, f, labels) , f##_
#define VARVE__MEASURE_ENUM(kind, type, f, labels)
#define VARVE__PUT_ENUM(kind, type, f, labels)                                                     \
	varve__p = varve__put(varve__p, &f##_, sizeof(f##_));

/* ("label", value) and ("label", lowest, highest) */
#define VARVE__CHECK_LABEL(x) VARVE__CAT(VARVE__CHECK_LABEL_, VARVE__PARENTHESES(x))(x)
#define VARVE__CHECK_LABEL_0(x)                                                                    \
	VARVE__ASSERT(0, "varve: '" #x "' is no label: labels are (\"label\", value)");
#define VARVE__CHECK_LABEL_1(x) VARVE__CHECK_LABEL_2 x
#define VARVE__CHECK_LABEL_2(...)                                                                  \
	VARVE__CHECK_LABEL_3(__VA_ARGS__, VARVE__SECOND(__VA_ARGS__, ~, ~), ~)
#define VARVE__CHECK_LABEL_3(label, low, high, ...)                                                \
	VARVE__ASSERT(sizeof("" label) > 1 && sizeof("" label) <= 128,                             \
		"varve: a label has 1 to 127 bytes");                                              \
	VARVE__ASSERT((low) <= (high), "varve: a label's lowest value is above its highest");
#define VARVE__LABEL(x) VARVE__CAT(VARVE__LABEL_, VARVE__PARENTHESES(x))(x)
#define VARVE__LABEL_0(x)
#define VARVE__LABEL_1(x) VARVE__LABEL_2 x
#define VARVE__LABEL_2(...) VARVE__LABEL_3(__VA_ARGS__, VARVE__SECOND(__VA_ARGS__, ~, ~), ~)
#define VARVE__LABEL_3(label, low, high, ...) { label, (uint64_t)(low), (uint64_t)(high) },

/* clang-format on */

/* --- what the generated code calls ------------------------------------------------------------ */

/* Hides where a string comes from: the compiler would warn of reading beyond one that it can see.
 */
#define VARVE__HIDE(s) __asm__("" : "+r"(s))

/* Bytes before the NUL, at most max. */
static inline __attribute__((unused)) size_t varve__text_length(const char *s, size_t max)
{
	const char *end;

	VARVE__HIDE(s);
	end = (const char *)__builtin_memchr(s, 0, max);
	return end ? (size_t)(end - s) : max;
}

static inline __attribute__((unused)) size_t varve__measure_str(const char **s, size_t *left)
{
	size_t n;

	if (!*s)
		*s = "(null)";
	n = varve__text_length(*s, *left);
	*left -= n;
	return n;
}

static inline __attribute__((unused)) size_t varve__measure_seq(
	const void *s, size_t count, size_t size, size_t *left)
{
	size_t max = *left / size;

	if (!s)
		count = 0;
	if (count > max)
		count = max;
	*left -= count * size;
	return count;
}

static inline __attribute__((unused)) size_t varve__measure_textseq(
	const char **s, size_t count, size_t *left)
{
	if (!*s) {
		*s = "(null)";
		count = 6;
	}
	return varve__measure_seq(*s, count, 1, left);
}

static inline VARVE__INLINE unsigned char *varve__put(unsigned char *p, const void *s, size_t n)
{
	__builtin_memcpy(p, s, n);
	return p + n;
}

/* Another thread may have shortened the string since it was measured: a NUL inside would end the
 * field early for every reader, so what follows such a NUL becomes '#'. */
static inline __attribute__((unused)) unsigned char *varve__put_str(
	unsigned char *p, const char *s, size_t n)
{
	size_t whole;

	VARVE__HIDE(s);
	__builtin_memcpy(p, s, n);
	whole = varve__text_length((const char *)p, n);
	if (__builtin_expect(whole < n, 0))
		__builtin_memset(p + whole, '#', n - whole);
	p[n] = 0;
	return p + n + 1;
}

static inline __attribute__((unused)) unsigned char *varve__put_array(
	unsigned char *p, const void *s, size_t n)
{
	if (s)
		__builtin_memcpy(p, s, n);
	else
		__builtin_memset(p, 0, n);
	return p + n;
}

static inline __attribute__((unused)) unsigned char *varve__put_seq(
	unsigned char *p, const void *s, size_t count, size_t size)
{
	uint16_t n = (uint16_t)count;

	p = varve__put(p, &n, sizeof(n));
	if (count)
		__builtin_memcpy(p, s, count * size);
	return p + count * size;
}

static inline __attribute__((unused)) unsigned char *varve__put_text(
	unsigned char *p, const char *s, size_t n)
{
	size_t whole;

	if (!s)
		s = "(null)";
	VARVE__HIDE(s);
	whole = varve__text_length(s, n);
	__builtin_memcpy(p, s, whole);
	__builtin_memset(p + whole, 0, n - whole);
	return p + n;
}

#endif
