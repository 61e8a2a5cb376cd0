/* Inside the room: how a guide stands in a grammar.
 *
 * A grammar's states are combined as they are met: a NODE is a set of states of one rule that the same bytes lead to.  A
 * position of a text is a list of ITEMS: a node, and a STACK of the nodes to go on with when the rules that are open now
 * end.  Stacks are shared lists.  Nodes, stacks and what is known of them are kept until memory is used up; then what the
 * present position (and those that can be rolled back to) does not need is dropped.
 *
 *   guide_nodes.c   nodes, stacks, items: one byte further
 *   guide_mask.c    the vocabulary against a position
 *   guide.c         a guide's life, one token further, back again */
#ifndef SL_GUIDE_INT_H
#define SL_GUIDE_INT_H

#include "text/grammar_int.h"
#include "text/text_int.h"

/* ---- the vocabulary ---- */

enum { SL_TRIE_NO_TOKEN = (1 << 22) - 1, SL_TRIE_MAX_SKIP = (1 << 26) - 1 };
typedef struct {
    uint64_t byte : 8, depth : 8, /* of the last byte; of the first node: 1 */
        skip : 26,                /* nodes of this subtree, itself included */
        token : 22;               /* whose text ends here */
} sl_trie_node;
_Static_assert(sizeof(sl_trie_node) == 8, "one word per node");

struct sl_token_trie {
    const sl_tokenizer *t;
    sl_trie_node *nodes;
    uint32_t n;
};

/* ---- nodes ---- */

enum { SL_STEP_UNKNOWN, SL_STEP_DEAD, SL_NODE_FIRST }; /* what a row holds: a step not yet taken, no way on, nodes */
enum { SL_NODE_BYTES = 1, SL_NODE_CALLS = 2, SL_NODE_END = 4 };
typedef struct {
    uint32_t set, n_set;    /* states, in the pool, sorted */
    uint32_t row;           /* [n_class] in the pool: the node each class of bytes leads to; 0: none taken yet */
    uint32_t calls, n_call; /* pairs in the pool: rule, node to go on with (or UNKNOWN) */
    uint32_t mask;          /* sl_node_mask in the pool; 0: not known */
    uint32_t hash_next;
    uint16_t need;
    uint8_t flags;
    bool live; /* while compacting */
} sl_guide_node;

/* What one item allows by itself, whatever its stack: tokens that end inside its rule or the rules that it calls, and the
 * places in the tree where its rule may have ended and the stack decides. */
typedef struct {
    uint32_t n_token;   /* tokens follow, or a bit field when sparse is false */
    uint32_t n_exit;    /* then indices into the tree */
    uint16_t reach;     /* the deepest stack that was needed, beyond the item's own */
    bool sparse, whole; /* whole: not kept, look at the whole tree each time */
} sl_node_mask;
enum { SL_NODE_MASK_WORDS = sizeof(sl_node_mask) / 4 };

typedef struct {
    uint32_t node, parent, depth, hash_next; /* node: to go on with */
} sl_guide_stack;
enum { SL_STACK_EMPTY, SL_STACK_BASE, SL_STACK_FIRST }; /* BASE: the unknown stack of the item a mask is made for */

typedef struct {
    uint32_t node, stack;
} sl_guide_item;

typedef struct {
    uint32_t from, n;   /* items, in the arena of a walk */
    bool can_end, exit; /* an end with the stack empty, or at BASE */
} sl_guide_level;

enum {
    SL_GUIDE_MAX_ITEMS = 512,    /* of one position */
    SL_GUIDE_WALK_ITEMS = 1 << 15,
    SL_GUIDE_MAX_STACKS = 1 << 13,
    SL_GUIDE_MAX_EXITS = 1 << 13,
    SL_GUIDE_SLOTS = SL_GUIDE_MAX_ROLLBACK + 1,
};
#define SL_GUIDE_MAX_WORK 40000000u /* per token; a quarter of a second at worst */

typedef enum { SL_FAULT_NONE, SL_FAULT_MEMORY, SL_FAULT_ITEMS, SL_FAULT_WORK } sl_guide_fault;

typedef struct {
    sl_guide_item items[SL_GUIDE_MAX_ITEMS];
    uint32_t n;
    bool can_end, ended; /* ended: an end token was accepted */
} sl_guide_slot;

struct sl_guide {
    const sl_gram *g;
    const sl_token_trie *trie;
    void *block; /* all arrays below */
    uint64_t bytes;
    uint32_t n_vocab, n_word;

    sl_guide_node *nodes;
    uint32_t n_node, max_node;
    uint32_t *node_hash, node_hash_mask;
    uint32_t *start;     /* [n_rule] nodes */
    uint32_t *renumber;  /* [max_node] while compacting */
    uint32_t *pool;      /* sets, rows, calls, masks */
    uint32_t n_pool, max_pool;
    sl_guide_stack *stacks;
    uint32_t n_stack;
    uint32_t *stack_hash; /* [2 * MAX_STACKS] */

    uint32_t *seen, stamp;  /* [n_state] of the grammar */
    uint32_t *list;         /* [n_list] states, or rules that a node calls */
    uint32_t n_list;
    sl_guide_item *items;   /* arena of a walk */
    sl_guide_level levels[257];
    uint32_t *exits;        /* [MAX_EXITS] */
    uint16_t reach;
    uint32_t work;
    sl_guide_fault fault;   /* sticky until the call that met it is done */
    bool broken;            /* positions were lost: only a reset helps */

    uint64_t *mask, *scratch; /* [n_word] */
    sl_guide_slot *slots;     /* ring of positions */
    uint32_t slot, n_back;    /* the present one; how many before it are kept */

    int32_t control[SL_GUIDE_MAX_CONTROL];
    uint32_t n_control;
    int32_t *ends; /* [n_end] tokens that end generation */
    uint32_t n_end;
};

/* ---- guide_nodes.c ---- */

uint32_t sl_guide_start_node(sl_guide *gd, uint32_t rule);
/* Where the byte leads: a node, or SL_STEP_DEAD (also after a fault). */
uint32_t sl_guide_step(sl_guide *gd, uint32_t node, uint8_t byte);
/* Empties a level behind the items before it. */
void sl_guide_level_begin(sl_guide_level *lv, uint32_t from);
void sl_guide_put(sl_guide *gd, sl_guide_level *lv, uint32_t node, uint32_t stack);
/* Follows calls and ends; then drops the items that no byte can move. */
void sl_guide_close_level(sl_guide *gd, sl_guide_level *lv);
/* One byte further; false: nothing is left. */
bool sl_guide_advance(sl_guide *gd, const sl_guide_level *up, uint8_t byte, sl_guide_level *out);
/* Words of the pool; 0: full (a fault). */
uint32_t sl_guide_take(sl_guide *gd, uint32_t n);
/* Forgets all nodes, stacks and masks. */
void sl_guide_forget(sl_guide *gd);
/* Forgets those that no kept position needs; false: that is no help. */
bool sl_guide_compact(sl_guide *gd);

/* ---- guide_mask.c ---- */

/* gd->mask for the present position, faults apart. */
void sl_guide_fill_mask(sl_guide *gd);
/* The bytes of a token from the present position; *out is where they lead.  False: refused, or a fault. */
bool sl_guide_try(sl_guide *gd, const char *bytes, size_t n_bytes, const sl_guide_level **out);

#endif
