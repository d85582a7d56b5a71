/* SPDX-License-Identifier: MIT */
#ifndef VARVE_LIST_H
#define VARVE_LIST_H

/* Lists of macro arguments, for <varve/varve.h>: standard C99, no extension of any compiler. */

/* clang-format off */
#define VARVE__CAT(a, b) VARVE__CAT_(a, b)
#define VARVE__CAT_(a, b) a##b
#define VARVE__FIRST(a, ...) a
#define VARVE__SECOND(...) VARVE__SECOND_(__VA_ARGS__)
#define VARVE__SECOND_(a, b, ...) b
#define VARVE__REST(...) VARVE__REST_(__VA_ARGS__)
#define VARVE__REST_(a, ...) __VA_ARGS__

/* 1 if x is something in parentheses, else 0. */
#define VARVE__PARENTHESES(x) VARVE__SECOND(VARVE__PROBE x, 0, ~)
#define VARVE__PROBE(...) ~, 1

/* What op gives for each argument but the first, each with a comma in front; none, if no more. */
#define VARVE__ARGUMENTS(op, none, ...)                                                            \
	VARVE__CAT(VARVE__ARGUMENTS_, VARVE__SOME(__VA_ARGS__))(op, none, __VA_ARGS__)
#define VARVE__ARGUMENTS_0(op, none, ...) none
#define VARVE__ARGUMENTS_1(op, none, ...) VARVE__REST(VARVE__NOTHING VARVE__EACH(op, __VA_ARGS__))
#define VARVE__NOTHING

/* op(x) for each argument but the first. */
#define VARVE__EACH(op, ...) VARVE__CAT(VARVE__EACH_, VARVE__COUNT(__VA_ARGS__))(op, __VA_ARGS__)
#define VARVE__EACH_MANY(op, ...) varve_error_more_than_64_fields_or_labels
#define VARVE__EACH_1(op, a)
#define VARVE__EACH_2(op, a, x) op(x)
#define VARVE__EACH_3(op, a, x, ...) op(x) VARVE__EACH_2(op, a, __VA_ARGS__)
#define VARVE__EACH_4(op, a, x, ...) op(x) VARVE__EACH_3(op, a, __VA_ARGS__)
#define VARVE__EACH_5(op, a, x, ...) op(x) VARVE__EACH_4(op, a, __VA_ARGS__)
#define VARVE__EACH_6(op, a, x, ...) op(x) VARVE__EACH_5(op, a, __VA_ARGS__)
#define VARVE__EACH_7(op, a, x, ...) op(x) VARVE__EACH_6(op, a, __VA_ARGS__)
#define VARVE__EACH_8(op, a, x, ...) op(x) VARVE__EACH_7(op, a, __VA_ARGS__)
#define VARVE__EACH_9(op, a, x, ...) op(x) VARVE__EACH_8(op, a, __VA_ARGS__)
#define VARVE__EACH_10(op, a, x, ...) op(x) VARVE__EACH_9(op, a, __VA_ARGS__)
#define VARVE__EACH_11(op, a, x, ...) op(x) VARVE__EACH_10(op, a, __VA_ARGS__)
#define VARVE__EACH_12(op, a, x, ...) op(x) VARVE__EACH_11(op, a, __VA_ARGS__)
#define VARVE__EACH_13(op, a, x, ...) op(x) VARVE__EACH_12(op, a, __VA_ARGS__)
#define VARVE__EACH_14(op, a, x, ...) op(x) VARVE__EACH_13(op, a, __VA_ARGS__)
#define VARVE__EACH_15(op, a, x, ...) op(x) VARVE__EACH_14(op, a, __VA_ARGS__)
#define VARVE__EACH_16(op, a, x, ...) op(x) VARVE__EACH_15(op, a, __VA_ARGS__)
#define VARVE__EACH_17(op, a, x, ...) op(x) VARVE__EACH_16(op, a, __VA_ARGS__)
#define VARVE__EACH_18(op, a, x, ...) op(x) VARVE__EACH_17(op, a, __VA_ARGS__)
#define VARVE__EACH_19(op, a, x, ...) op(x) VARVE__EACH_18(op, a, __VA_ARGS__)
#define VARVE__EACH_20(op, a, x, ...) op(x) VARVE__EACH_19(op, a, __VA_ARGS__)
#define VARVE__EACH_21(op, a, x, ...) op(x) VARVE__EACH_20(op, a, __VA_ARGS__)
#define VARVE__EACH_22(op, a, x, ...) op(x) VARVE__EACH_21(op, a, __VA_ARGS__)
#define VARVE__EACH_23(op, a, x, ...) op(x) VARVE__EACH_22(op, a, __VA_ARGS__)
#define VARVE__EACH_24(op, a, x, ...) op(x) VARVE__EACH_23(op, a, __VA_ARGS__)
#define VARVE__EACH_25(op, a, x, ...) op(x) VARVE__EACH_24(op, a, __VA_ARGS__)
#define VARVE__EACH_26(op, a, x, ...) op(x) VARVE__EACH_25(op, a, __VA_ARGS__)
#define VARVE__EACH_27(op, a, x, ...) op(x) VARVE__EACH_26(op, a, __VA_ARGS__)
#define VARVE__EACH_28(op, a, x, ...) op(x) VARVE__EACH_27(op, a, __VA_ARGS__)
#define VARVE__EACH_29(op, a, x, ...) op(x) VARVE__EACH_28(op, a, __VA_ARGS__)
#define VARVE__EACH_30(op, a, x, ...) op(x) VARVE__EACH_29(op, a, __VA_ARGS__)
#define VARVE__EACH_31(op, a, x, ...) op(x) VARVE__EACH_30(op, a, __VA_ARGS__)
#define VARVE__EACH_32(op, a, x, ...) op(x) VARVE__EACH_31(op, a, __VA_ARGS__)
#define VARVE__EACH_33(op, a, x, ...) op(x) VARVE__EACH_32(op, a, __VA_ARGS__)
#define VARVE__EACH_34(op, a, x, ...) op(x) VARVE__EACH_33(op, a, __VA_ARGS__)
#define VARVE__EACH_35(op, a, x, ...) op(x) VARVE__EACH_34(op, a, __VA_ARGS__)
#define VARVE__EACH_36(op, a, x, ...) op(x) VARVE__EACH_35(op, a, __VA_ARGS__)
#define VARVE__EACH_37(op, a, x, ...) op(x) VARVE__EACH_36(op, a, __VA_ARGS__)
#define VARVE__EACH_38(op, a, x, ...) op(x) VARVE__EACH_37(op, a, __VA_ARGS__)
#define VARVE__EACH_39(op, a, x, ...) op(x) VARVE__EACH_38(op, a, __VA_ARGS__)
#define VARVE__EACH_40(op, a, x, ...) op(x) VARVE__EACH_39(op, a, __VA_ARGS__)
#define VARVE__EACH_41(op, a, x, ...) op(x) VARVE__EACH_40(op, a, __VA_ARGS__)
#define VARVE__EACH_42(op, a, x, ...) op(x) VARVE__EACH_41(op, a, __VA_ARGS__)
#define VARVE__EACH_43(op, a, x, ...) op(x) VARVE__EACH_42(op, a, __VA_ARGS__)
#define VARVE__EACH_44(op, a, x, ...) op(x) VARVE__EACH_43(op, a, __VA_ARGS__)
#define VARVE__EACH_45(op, a, x, ...) op(x) VARVE__EACH_44(op, a, __VA_ARGS__)
#define VARVE__EACH_46(op, a, x, ...) op(x) VARVE__EACH_45(op, a, __VA_ARGS__)
#define VARVE__EACH_47(op, a, x, ...) op(x) VARVE__EACH_46(op, a, __VA_ARGS__)
#define VARVE__EACH_48(op, a, x, ...) op(x) VARVE__EACH_47(op, a, __VA_ARGS__)
#define VARVE__EACH_49(op, a, x, ...) op(x) VARVE__EACH_48(op, a, __VA_ARGS__)
#define VARVE__EACH_50(op, a, x, ...) op(x) VARVE__EACH_49(op, a, __VA_ARGS__)
#define VARVE__EACH_51(op, a, x, ...) op(x) VARVE__EACH_50(op, a, __VA_ARGS__)
#define VARVE__EACH_52(op, a, x, ...) op(x) VARVE__EACH_51(op, a, __VA_ARGS__)
#define VARVE__EACH_53(op, a, x, ...) op(x) VARVE__EACH_52(op, a, __VA_ARGS__)
#define VARVE__EACH_54(op, a, x, ...) op(x) VARVE__EACH_53(op, a, __VA_ARGS__)
#define VARVE__EACH_55(op, a, x, ...) op(x) VARVE__EACH_54(op, a, __VA_ARGS__)
#define VARVE__EACH_56(op, a, x, ...) op(x) VARVE__EACH_55(op, a, __VA_ARGS__)
#define VARVE__EACH_57(op, a, x, ...) op(x) VARVE__EACH_56(op, a, __VA_ARGS__)
#define VARVE__EACH_58(op, a, x, ...) op(x) VARVE__EACH_57(op, a, __VA_ARGS__)
#define VARVE__EACH_59(op, a, x, ...) op(x) VARVE__EACH_58(op, a, __VA_ARGS__)
#define VARVE__EACH_60(op, a, x, ...) op(x) VARVE__EACH_59(op, a, __VA_ARGS__)
#define VARVE__EACH_61(op, a, x, ...) op(x) VARVE__EACH_60(op, a, __VA_ARGS__)
#define VARVE__EACH_62(op, a, x, ...) op(x) VARVE__EACH_61(op, a, __VA_ARGS__)
#define VARVE__EACH_63(op, a, x, ...) op(x) VARVE__EACH_62(op, a, __VA_ARGS__)
#define VARVE__EACH_64(op, a, x, ...) op(x) VARVE__EACH_63(op, a, __VA_ARGS__)
#define VARVE__EACH_65(op, a, x, ...) op(x) VARVE__EACH_64(op, a, __VA_ARGS__)

/* 1 to 65, or MANY. */
#define VARVE__COUNT(...) VARVE__PICK(__VA_ARGS__, \
	MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, \
	MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, \
	MANY, MANY, MANY, 65, 64, 63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, \
	48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, \
	27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, \
	4, 3, 2, 1, ~)
/* 1 if there is more than one argument, else 0. */
#define VARVE__SOME(...) VARVE__PICK(__VA_ARGS__, \
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
	1, 1, 1, 1, 1, 1, 1, 1, 0, ~)
#define VARVE__PICK( \
	a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, \
	a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, \
	a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, \
	a54, a55, a56, a57, a58, a59, a60, a61, a62, a63, a64, a65, a66, a67, a68, a69, a70, \
	a71, a72, a73, a74, a75, a76, a77, a78, a79, a80, a81, a82, a83, a84, a85, a86, a87, \
	a88, a89, a90, a91, a92, a93, a94, a95, a96, n, ...) n
/* clang-format on */
#endif
