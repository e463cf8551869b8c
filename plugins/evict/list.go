package evict

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// The list is a ConfigMap with the evictions of the last hour of all workloads. It is in a
// namespace that every cluster has and that no tenant can write to, since the programs that
// evict run in different namespaces.
const (
	ListNamespace = metav1.NamespaceSystem
	ListName      = "sigma-evictions"
)

const (
	// FieldManager is the field manager of all records.
	FieldManager = "sigma-evictions"
	// listKey is the key of the list's data: one line for each eviction, oldest first, of the
	// form time/source/node/workload. A ConfigMap without it has just been created.
	listKey = "evictions"
	// maxListLength is the greatest length of the list in bytes; the API server allows 1 MiB.
	maxListLength = 1_000_000
)

// An entry is one eviction in the list.
type entry struct {
	record
	workload string // group/kind/namespace/name
}

func (n entry) String() string { return n.record.String() + "/" + n.workload }

func (n entry) namespace() string { return strings.Split(n.workload, "/")[2] }

// parseList reads the list. It treats times as [parse] does.
func parseList(text string, now time.Time) ([]entry, error) {
	if text == "" {
		return nil, nil
	}
	var list []entry
	for i, line := range strings.Split(text, "\n") {
		parts := strings.SplitN(line, "/", 4)
		if len(parts) != 4 || parts[1] == "" || strings.Count(parts[3], "/") != 3 || slices.Contains(strings.Split(parts[3], "/"), "") {
			return nil, fmt.Errorf("line %d %.80q: want time/source/node/group/kind/namespace/name", i+1, line)
		}
		r, err := parseRecord(parts[:3], now)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if r.at.After(now.Add(-window)) {
			list = append(list, entry{r, parts[3]})
		}
	}
	return list, nil
}

func formatList(list []entry) string {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b entry) int { return a.at.Compare(b.at) })
	lines := make([]string, len(list))
	for i, n := range list {
		lines[i] = n.String()
	}
	return strings.Join(lines, "\n")
}

// conflicts is the backoff after another process changed the list first.
var conflicts = wait.Backoff{Steps: 20, Duration: 5 * time.Millisecond, Factor: 1.2, Jitter: 1}

// list returns the list. Before an evictor first uses it, and where it was just created, it
// gets the records that only annotations hold.
func (e *Evictor) list(ctx context.Context) ([]entry, error) { return e.edit(ctx, nil) }

// edit changes the list, from its newest version, and returns it; a nil change only reads.
func (e *Evictor) edit(ctx context.Context, change func([]entry) []entry) (list []entry, err error) {
	err = retry.RetryOnConflict(conflicts, func() error {
		object, err := e.object(ctx)
		if err != nil {
			return err
		}
		if list, err = e.entries(object); err != nil || change == nil {
			return err
		}
		list = change(list)
		if text := formatList(list); text == object.Data[listKey] {
			return nil
		}
		_, err = e.save(ctx, object, list)
		return err
	})
	return list, err
}

// object returns the ConfigMap of the list, which it creates and completes if necessary.
func (e *Evictor) object(ctx context.Context) (*v1.ConfigMap, error) {
	object, err := e.cluster.List(ctx)
	if apierrors.IsNotFound(err) {
		object, err = e.cluster.PatchList(ctx, types.ApplyPatchType, fmt.Appendf(nil,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q,"labels":{"app.kubernetes.io/part-of":"sigma"}}}`, ListName, ListNamespace))
	}
	if err != nil {
		return nil, listError(err)
	}
	_, complete := object.Data[listKey]
	if complete && e.joined.Load() {
		return object, nil
	}
	list, err := e.entries(object)
	if err != nil {
		return nil, err
	}
	missing, err := e.missing(ctx, list)
	if err != nil {
		return nil, err
	}
	if !complete || len(missing) > 0 {
		if object, err = e.save(ctx, object, append(list, missing...)); err != nil {
			return nil, err
		}
	}
	e.joined.Store(true)
	return object, nil
}

// listError adds the name of the list to an error of the API server, and the remedy.
func listError(err error) error {
	remedy := ""
	if apierrors.IsForbidden(err) {
		remedy = "; the manifests of this version grant get, create and patch of it"
	}
	return fmt.Errorf("list of evictions, ConfigMap %s/%s: %w%s", ListNamespace, ListName, err, remedy)
}

// entries returns the list that its ConfigMap holds.
func (e *Evictor) entries(object *v1.ConfigMap) ([]entry, error) {
	list, err := parseList(object.Data[listKey], e.clock.Now())
	if err != nil {
		return nil, &LimitError{Limit: "cluster", Why: fmt.Sprintf(
			"list of evictions, ConfigMap %s/%s, key %s: %v; delete the ConfigMap: Sigma creates it again from the records of the workloads",
			ListNamespace, ListName, listKey, err)}
	}
	return list, nil
}

// save writes the list, if nobody else changed it since object was read.
func (e *Evictor) save(ctx context.Context, object *v1.ConfigMap, list []entry) (*v1.ConfigMap, error) {
	text := formatList(list)
	if len(text) > maxListLength {
		now := e.clock.Now()
		return nil, &LimitError{Limit: "cluster", Until: freeAt(recordsOf(list, every), now), Why: fmt.Sprintf(
			"the list of evictions, ConfigMap %s/%s, would have %d bytes, at most %d are allowed", ListNamespace, ListName, len(text), maxListLength)}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": object.UID, "resourceVersion": object.ResourceVersion},
		"data":     map[string]any{listKey: text},
	})
	if err != nil {
		return nil, err
	}
	if object, err = e.cluster.PatchList(ctx, types.MergePatchType, patch); err != nil {
		return nil, listError(err)
	}
	return object, nil
}

// missing returns the evictions that the list lacks: those by a version of Sigma that wrote
// annotations only, and those of a list that was deleted. Annotations written by somebody
// else do not count. Of a workload at most as many count as it has replicas, and of a
// namespace at most its limit.
func (e *Evictor) missing(ctx context.Context, list []entry) (missing []entry, err error) {
	all, err := e.workloads(ctx)
	if err != nil {
		return nil, err
	}
	have, in := map[entry]int{}, map[string]int{}
	for _, n := range list {
		have[n]++
		in[n.namespace()]++
	}
	for _, w := range all {
		if !w.own || w.broken != nil {
			continue
		}
		most, err := e.replicas(ctx, w)
		if err != nil {
			return nil, err
		}
		for _, r := range w.records[max(0, len(w.records)-most):] {
			n := entry{r, w.String()}
			switch {
			case have[n] > 0:
				have[n]--
			case e.limits.PerNamespace == 0 || in[w.namespace] < e.limits.PerNamespace:
				in[w.namespace]++
				missing = append(missing, n)
			}
		}
	}
	return missing, nil
}

// replicas returns how many of a workload's records count at most, at least 1. It is read only
// where it matters.
func (e *Evictor) replicas(ctx context.Context, w *workload) (int, error) {
	if len(w.records) <= 1 || w.kind.Group != "apps" {
		return 1, nil
	}
	object, err := e.cluster.Workload(ctx, w.kind, w.namespace, w.ref.Name)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // the updater evicts no pods of bare ReplicaSets
		return 1, nil
	case err != nil:
		return 0, fmt.Errorf("read %s: %w", w.ref, err)
	}
	return max(1, number(object, 1, "spec", "replicas")), nil
}

// wroteAnnotation reports whether an object's annotation is as Sigma wrote it: a field that
// somebody else changes gets another field manager.
func wroteAnnotation(object metav1.Object) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if m.Manager != FieldManager || m.Subresource != "status" || m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			return false
		}
		_, has := fields.Metadata.Annotations["f:"+Annotation]
		return has
	})
}

// enter adds an eviction to the list, where the limits allow it. w is the workload before its
// annotation got the record.
func (e *Evictor) enter(ctx context.Context, w *workload, r record, l *Limits) error {
	n := entry{r, w.String()}
	var refused error
	_, err := e.edit(ctx, func(list []entry) []entry {
		others := list
		if i := slices.Index(list, n); count(list, n) > count(w.records, r) { // another process took it from the annotation
			others = slices.Delete(slices.Clone(list), i, i+1)
		}
		if refused = l.check(w, r, others, e.clock.Now()); refused != nil {
			return others
		}
		return append(others, n)
	})
	return cmp.Or(err, refused)
}

func count[T comparable](list []T, one T) (n int) {
	for _, o := range list {
		if o == one {
			n++
		}
	}
	return n
}

// leave removes an eviction from the list, unless it is too old or somebody removed it.
func (e *Evictor) leave(ctx context.Context, n entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := e.edit(ctx, func(list []entry) []entry {
		if i := slices.Index(list, n); i >= 0 {
			list = slices.Delete(list, i, i+1)
		}
		return list
	})
	return err
}

func every(entry) bool { return true }

// recordsOf returns the records of the entries that a condition holds for.
func recordsOf(list []entry, is func(entry) bool) (records []record) {
	for _, n := range list {
		if is(n) {
			records = append(records, n.record)
		}
	}
	return records
}
