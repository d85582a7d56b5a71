/* SPDX-License-Identifier: MIT */
#ifndef VARVE_BASE_LIST_H
#define VARVE_BASE_LIST_H

/* Doubly linked list through a member of its elements. A head, and an element that is in no list,
 * points to itself, so that removing is always safe. Owns nothing. */

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev, *next;
};

#define list_entry(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

/* The element may be removed (and freed) by the body. */
#define list_for_each(pos, head, type, member)                                                     \
	for (struct list *pos##_l = (head)->next, *pos##_n = pos##_l->next;                        \
		pos##_l != (head) && ((pos) = list_entry(pos##_l, type, member), true);            \
		pos##_l = pos##_n, pos##_n = pos##_l->next)

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

/* Puts an element that is in no list at the end. */
static inline void list_append(struct list *head, struct list *e)
{
	e->prev = head->prev;
	e->next = head;
	head->prev->next = e;
	head->prev = e;
}

static inline void list_remove(struct list *e)
{
	e->prev->next = e->next;
	e->next->prev = e->prev;
	list_init(e);
}

#endif
