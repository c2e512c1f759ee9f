#include "cluster/snapshelf.h"

#include "base/mem.h"

void snapshelf_init(struct snapshelf *s)
{
    *s = (struct snapshelf){0};
    pthread_mutex_init(&s->lock, NULL);
}

void snapshelf_fini(struct snapshelf *s)
{
    pthread_mutex_destroy(&s->lock);
    mem_free(s->v);
}

static struct snapshelf_item *find(struct snapshelf *s, uint32_t group, uint64_t index)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->v[i].file.group == group && s->v[i].file.index == index) return &s->v[i];
    return NULL;
}

void snapshelf_put(struct snapshelf *s, const struct groupdir_file *f, const struct groupsnap_totals *t)
{
    pthread_mutex_lock(&s->lock);
    struct snapshelf_item *item = find(s, f->group, f->index);
    if (!item && s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 32;
        s->v = mem_resize(s->v, s->cap * sizeof *s->v);
    }
    if (!item) item = &s->v[s->n++];
    *item = (struct snapshelf_item){*f, *t};
    pthread_mutex_unlock(&s->lock);
}

bool snapshelf_find(struct snapshelf *s, uint32_t group, uint64_t index, struct snapshelf_item *out)
{
    pthread_mutex_lock(&s->lock);
    const struct snapshelf_item *item = find(s, group, index);
    if (item) *out = *item;
    pthread_mutex_unlock(&s->lock);
    return item != NULL;
}

bool snapshelf_take_out(struct snapshelf *s, uint32_t group, uint64_t index, uint64_t checksum)
{
    pthread_mutex_lock(&s->lock);
    struct snapshelf_item *item = find(s, group, index);
    bool is_it = item && item->totals.checksum == checksum;
    if (is_it) *item = s->v[--s->n];
    pthread_mutex_unlock(&s->lock);
    return is_it;
}

void snapshelf_drop_before(struct snapshelf *s, uint32_t group, uint64_t index)
{
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = s->n; i-- > 0;)
        if (s->v[i].file.group == group && (s->v[i].file.index < index || index == UINT64_MAX)) s->v[i] = s->v[--s->n];
    pthread_mutex_unlock(&s->lock);
}
