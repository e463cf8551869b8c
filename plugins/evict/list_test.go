package evict

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// forge is a text of n records at a time.
func forge(n int, at time.Time, source, node string) string {
	return strings.TrimSuffix(strings.Repeat(at.Format(time.RFC3339)+"/"+source+"/"+node+",", n), ",")
}

// No annotation that a tenant writes changes which pods of others may be evicted, whether
// Sigma finds it at its start or later; it limits its own workload.
func TestForged(t *testing.T) {
	for name, text := range map[string]string{
		"now":        forge(240, start, "make-room", "a"),
		"ahead":      forge(240, start.Add(23*time.Hour), "make-room", "a"),
		"far ahead":  forge(1, start.Add(25*time.Hour), "make-room", "a"),
		"a source":   forge(20, start, "make-room:general", "b"),
		"no records": "x",
		"too long":   forge(4000, start, "make-room", "a"),
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", late: ", late), func(t *testing.T) {
				s, clock := newSite("shop/web", "bank/db")
				e := New(s, MakeRoom, Defaults, clock)
				if late {
					require.NoError(t, e.Evict(t.Context(), pod("bank/db", "c")))
				}
				for i := range 240 {
					name := fmt.Sprintf("tenant%d/x%d", i%8, i)
					s.deployment(name, 5000)
					s.annotate(name, text)
				}
				for _, e := range []*Evictor{e, New(s, MakeRoom, Defaults, clock)} {
					err := e.EvictAs(t.Context(), "make-room:general", 20, pod("tenant0/x0", "a"))
					var limit *LimitError
					require.ErrorAs(t, err, &limit)
					assert.Equal(t, "workload apps/Deployment/tenant0/x0", limit.Limit)
				}
				require.NoError(t, e.EvictAs(t.Context(), "make-room:general", 20, pod("shop/web", "a")))
				assert.NotContains(t, s.listed(), "tenant")
				n, err := e.Count(t.Context(), "make-room:general")
				require.NoError(t, err)
				assert.Equal(t, 1, n)
			})
		}
	}
}

// Records that claim to be Sigma's count no more than the workload's replicas and the limit of
// its namespace.
func TestForgedManager(t *testing.T) {
	s, clock := newSite("shop/web")
	for i, replicas := range []int64{3, 100} {
		name := fmt.Sprintf("tenant%d/x", i)
		s.deployment(name, replicas)
		s.annotate(name, forge(240, start, "make-room", "b"))
		managers := s.objects[name].GetManagedFields()
		managers[0].Manager, managers[0].Subresource = FieldManager, "status"
		s.objects[name].SetManagedFields(managers)
	}
	require.NoError(t, New(s, MakeRoom, Defaults, clock).Evict(t.Context(), pod("shop/web", "a")))
	assert.Equal(t, 3, strings.Count(s.listed(), "/tenant0/"))
	assert.Equal(t, Defaults.PerNamespace, strings.Count(s.listed(), "/tenant1/"))
}

// formerly evicts as the versions did that only wrote annotations: it counts those of all workloads.
func (s *site) formerly(t *testing.T, now time.Time, name, node string) bool {
	t.Helper()
	n := 0
	for _, o := range s.objects {
		list, err := parse(o.GetAnnotations()[Annotation], now)
		require.NoError(t, err)
		n += len(list)
	}
	if n >= 4 {
		return false
	}
	o := s.objects[name]
	list, err := parse(o.GetAnnotations()[Annotation], now)
	require.NoError(t, err)
	e := Evictor{cluster: s}
	require.NoError(t, e.patch(t.Context(), read(o, Kinds[0], now), o, append(list, record{now, Updater, node})))
	s.evicted = append(s.evicted, name)
	return true
}

// An upgrade, a rollback and another upgrade within an hour: all limits hold over the versions.
func TestUpgrade(t *testing.T) {
	s, clock := newSite("shop/web", "shop/db", "bank/web", "bank/db")
	names := []string{"shop/web", "shop/db", "bank/web", "bank/db"}
	now := start
	minute := func() time.Time {
		now = now.Add(time.Minute)
		clock.SetTime(now)
		return now
	}
	require.True(t, s.formerly(t, minute(), "shop/web", "a"))
	require.True(t, s.formerly(t, minute(), "bank/web", "b"))

	var limit *LimitError
	require.ErrorAs(t, New(s, Updater, Limits{WorkloadPercent: 10}, clock).Evict(t.Context(), pod("shop/web", "c")), &limit, "its own limit")
	require.ErrorAs(t, New(s, Updater, Limits{PerNode: 1}, clock).Evict(t.Context(), pod("shop/db", "b")), &limit)
	e := New(s, Updater, Limits{PerHour: 3}, clock)
	minute()
	require.NoError(t, e.Evict(t.Context(), pod("shop/db", "a")))
	for _, name := range names {
		require.ErrorAs(t, e.Evict(t.Context(), pod(name, "c")), &limit)
		require.Equal(t, "cluster", limit.Limit)
	}

	require.True(t, s.formerly(t, minute(), "bank/db", "a"))
	require.False(t, s.formerly(t, minute(), "shop/web", "a"), "the former version counts what this one wrote")

	e = New(s, Updater, Limits{PerHour: 5}, clock)
	minute()
	require.NoError(t, e.Evict(t.Context(), pod("shop/web", "a")))
	require.ErrorAs(t, e.Evict(t.Context(), pod("shop/web", "a")), &limit)
	require.Len(t, s.evicted, 5)
	require.Equal(t, 5, strings.Count(s.listed(), "/updater/"), "each once")
	clock.SetTime(start.Add(61 * time.Minute))
	require.NoError(t, e.Evict(t.Context(), pod("bank/db", "a")), "an hour after the first")
}

// The limits hold while somebody deletes the list again and again.
func TestListDeleted(t *testing.T) {
	s, clock := newSite()
	var all sync.WaitGroup
	for i := range 8 {
		name := fmt.Sprintf("shop/web%d", i)
		s.deployment(name, 10)
		e := New(s, MakeRoom, Limits{PerHour: 5}, clock)
		all.Go(func() {
			for range 5 {
				_ = e.Evict(t.Context(), pod(name, "a"))
				if rand.IntN(3) == 0 {
					s.mu.Lock()
					s.list = nil
					s.mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	assert.LessOrEqual(t, len(s.evicted), 5)
	assert.NotEmpty(t, s.evicted)
}

// A list that cannot be read stops all evictions until it is deleted.
func TestListGarbage(t *testing.T) {
	const workload = "/apps/Deployment/shop/web"
	for text, want := range map[string]string{
		"x":                                    "line 1 \"x\": want time/source/node/group/kind/namespace/name",
		"2026-05-04T09:59:00Z/updater/a":       "want time/source/node/group/kind/namespace/name",
		"2026-05-04T09:59:00Z//a" + workload:   "want time/source/node/group/kind/namespace/name",
		"2026-05-04T09:59:00Z/updater/a/a/b//": "want time/source/node/group/kind/namespace/name",
		"2026-05-04T09:59:00Z/updater/a" + workload + "\nyesterday/updater/a" + workload: "line 2: time \"yesterday\": want the form 2006-01-02T15:04:05Z",
		"2026-05-05T10:00:01Z/updater/a" + workload:                                      "line 1: time 2026-05-05T10:00:01Z is more than a day from now",
	} {
		s, clock := newSite("shop/web", "bank/db")
		e := New(s, MakeRoom, Limits{PerHour: 2}, clock)
		require.NoError(t, e.Evict(t.Context(), pod("shop/web", "a")))
		s.list.Data[listKey] = text
		for _, e := range []*Evictor{e, New(s, MakeRoom, Limits{}, clock)} {
			err := e.Evict(t.Context(), pod("bank/db", "a"))
			var limit *LimitError
			require.ErrorAs(t, err, &limit)
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "list of evictions, ConfigMap kube-system/sigma-evictions, key evictions")
			require.ErrorContains(t, err, "delete the ConfigMap")
		}
		assert.Empty(t, s.annotation("bank/db"))
		s.list = nil
		require.NoError(t, e.Evict(t.Context(), pod("bank/db", "a")))
		require.Error(t, e.Evict(t.Context(), pod("bank/db", "a")), "the first one still counts")
	}
}

// Where rights are missing, nothing is evicted, and the error names the object and the rights.
func TestListForbidden(t *testing.T) {
	for _, call := range []string{"read list", "write list"} {
		s, clock := newSite("shop/web")
		s.before = func(c string) error {
			if c == call {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, ListName, errors.New("no"))
			}
			return nil
		}
		err := New(s, MakeRoom, Limits{}, clock).Evict(t.Context(), pod("shop/web", "a"))
		require.True(t, apierrors.IsForbidden(err), err)
		require.ErrorContains(t, err, "ConfigMap kube-system/sigma-evictions")
		require.ErrorContains(t, err, "grant get, create and patch of it")
		assert.Empty(t, s.evicted)
		assert.Empty(t, s.annotation("shop/web"))
	}
}

// An eviction whose entry may be in the list does not happen, and counts for an hour.
func TestListAnswerLost(t *testing.T) {
	s, clock := newSite("shop/web", "shop/db")
	e := New(s, MakeRoom, Limits{PerHour: 1}, clock)
	_, err := e.list(t.Context())
	require.NoError(t, err)
	s.before = func(call string) error {
		if call == "write list" {
			s.before = nil
			n := entry{record{start, MakeRoom, "a"}, "apps/Deployment/shop/web"}
			s.list.Data[listKey], s.list.ResourceVersion = n.String(), "9"
			return errors.New("EOF")
		}
		return nil
	}
	require.ErrorContains(t, e.Evict(t.Context(), pod("shop/web", "a")), "EOF")
	assert.Empty(t, s.annotation("shop/web"))
	var limit *LimitError
	require.ErrorAs(t, e.Evict(t.Context(), pod("shop/db", "a")), &limit)
	assert.Empty(t, s.evicted)
	clock.SetTime(limit.Until)
	require.NoError(t, e.Evict(t.Context(), pod("shop/db", "a")))
}

// Without limits the size of the list is one.
func TestListFull(t *testing.T) {
	s, clock := newSite("shop/web")
	e := New(s, MakeRoom, Limits{}, clock)
	require.NoError(t, e.Evict(t.Context(), pod("shop/web", "a")))
	line := s.listed()
	n := maxListLength / (len(line) + 1)
	s.list.Data[listKey] = strings.TrimSuffix(strings.Repeat(line+"\n", n), "\n")
	clock.SetTime(start.Add(time.Minute))
	err := e.Evict(t.Context(), pod("shop/web", "a"))
	var limit *LimitError
	require.ErrorAs(t, err, &limit)
	require.ErrorContains(t, err, "bytes, at most 1000000 are allowed")
	assert.Equal(t, start.Add(time.Hour), limit.Until)
	clock.SetTime(limit.Until)
	require.NoError(t, e.Evict(t.Context(), pod("shop/web", "a")))
}

// A workload's limit holds where its annotation is removed.
func TestAnnotationRemoved(t *testing.T) {
	s, clock := newSite("shop/web")
	e := New(s, MakeRoom, Defaults, clock)
	require.NoError(t, e.Evict(t.Context(), pod("shop/web", "a")))
	s.annotate("shop/web", "")
	clock.SetTime(start.Add(time.Minute))
	var limit *LimitError
	require.ErrorAs(t, e.Evict(t.Context(), pod("shop/web", "a")), &limit)
	assert.Equal(t, "workload apps/Deployment/shop/web", limit.Limit)
}
