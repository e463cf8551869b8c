package evict

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An eviction is recorded before it happens, with the pod's UID, and forgotten an hour later.
func TestRecord(t *testing.T) {
	s, clock := newSite("shop/web")
	s.before = func(call string) error {
		if call == "evict" {
			assert.Equal(t, "2026-05-04T10:00:00Z/rebalance/a", s.annotation("shop/web"))
			assert.Equal(t, "2026-05-04T10:00:00Z/rebalance/a/apps/Deployment/shop/web", s.listed())
		}
		return nil
	}
	e := New(s, Rebalance, Limits{}, clock)
	require.NoError(t, e.Evict(t.Context(), pod("shop/web", "a")))
	assert.Equal(t, []string{"shop/web-7d4-x pod"}, s.evicted)
	s.before = nil
	clock.SetTime(start.Add(time.Hour - time.Second))
	require.NoError(t, e.Evict(t.Context(), pod("shop/web", "b")))
	assert.Equal(t, "2026-05-04T10:00:00Z/rebalance/a,2026-05-04T10:59:59Z/rebalance/b", s.annotation("shop/web"))
	clock.SetTime(start.Add(time.Hour))
	require.NoError(t, e.Evict(t.Context(), pod("shop/web", "c")))
	assert.Equal(t, "2026-05-04T10:59:59Z/rebalance/b,2026-05-04T11:00:00Z/rebalance/c", s.annotation("shop/web"))
	assert.Equal(t, "2026-05-04T10:59:59Z/rebalance/b/apps/Deployment/shop/web\n2026-05-04T11:00:00Z/rebalance/c/apps/Deployment/shop/web", s.listed())
}

// Each limit counts the evictions of all sources, and frees an hour after the oldest.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits Limits
		second string // the workload of the second pod
		node   string // and its node
		want   string // the limit; "" for none
	}{
		{"none", Limits{}, "shop/web", "a", ""},
		{"workload of 4: 1", Limits{WorkloadPercent: 10}, "shop/web", "b", "workload apps/Deployment/shop/web"},
		{"workload of 4: 2", Limits{WorkloadPercent: 50}, "shop/web", "b", ""},
		{"another workload", Limits{WorkloadPercent: 10}, "shop/db", "a", ""},
		{"namespace", Limits{PerNamespace: 1}, "shop/db", "b", "namespace shop"},
		{"another namespace", Limits{PerNamespace: 1}, "bank/db", "b", ""},
		{"node", Limits{PerNode: 1}, "bank/db", "a", "node a"},
		{"another node", Limits{PerNode: 1}, "shop/web", "b", ""},
		{"cluster", Limits{PerHour: 1}, "bank/db", "b", "cluster"},
		{"a cluster of two", Limits{PerHour: 2}, "bank/db", "b", ""},
		{"a moment ago", Limits{OneAtATime: true}, "shop/web", "b", "workload apps/Deployment/shop/web"},
		{"another, a moment ago", Limits{OneAtATime: true}, "shop/db", "b", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, clock := newSite("shop/web", "shop/db", "bank/db")
			require.NoError(t, New(s, Updater, Limits{}, clock).Evict(t.Context(), pod("shop/web", "a")))
			e := New(s, MakeRoom, c.limits, clock)
			err := e.Evict(t.Context(), pod(c.second, c.node))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			var limit *LimitError
			require.ErrorAs(t, err, &limit)
			assert.Equal(t, c.want, limit.Limit)
			assert.Len(t, s.evicted, 1)
			assert.NotContains(t, s.annotation(c.second), string(MakeRoom))
			clock.SetTime(limit.Until)
			require.NoError(t, e.Evict(t.Context(), pod(c.second, c.node)), "at %v", limit.Until)
		})
	}
}

// An eviction of a workload counts for an hour; one whose records cannot be read has too many until they are mended.
func TestRecent(t *testing.T) {
	s, clock := newSite("shop/web", "shop/db", "bank/web")
	e := New(s, Rebalance, Defaults, clock)
	require.NoError(t, New(s, Updater, Limits{}, clock).Evict(t.Context(), pod("shop/web", "a")))
	is := func() (list []int) {
		recent, err := e.Recent(t.Context())
		require.NoError(t, err)
		bare := pod("shop/web", "a")
		bare.OwnerReferences = nil
		for _, p := range []*v1.Pod{pod("shop/web", "b"), pod("shop/db", "a"), pod("bank/web", "a"), bare} {
			list = append(list, recent(p))
		}
		return list
	}
	require.Equal(t, []int{1, 0, 0, 0}, is())
	clock.SetTime(start.Add(time.Hour))
	require.Equal(t, []int{0, 0, 0, 0}, is())
	s.annotate("shop/db", "by hand")
	require.Equal(t, []int{0, math.MaxInt32, 0, 0}, is())
	require.NoError(t, e.Evict(t.Context(), pod("bank/web", "a")))
	s.annotate("bank/web", "")
	require.Equal(t, []int{0, math.MaxInt32, 1, 0}, is(), "the list has it")
}

// TestUnready: one pod of a workload at a time.
func TestUnready(t *testing.T) {
	s, clock := newSite("shop/web")
	s.objects["shop/web"].Object["status"] = map[string]any{"readyReplicas": int64(3)}
	err := New(s, Rebalance, Defaults, clock).Evict(t.Context(), pod("shop/web", "a"))
	require.EqualError(t, err, "limit of the workload apps/Deployment/shop/web: 3 of 4 replicas are ready")
	require.NoError(t, New(s, Updater, Limits{}, clock).Evict(t.Context(), pod("shop/web", "a")), "who looks for itself")
}

// Eight processes that evict at once never exceed a limit, and use all of it.
func TestRace(t *testing.T) {
	s, clock := newSite()
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprintf("shop/web%d", i))
		s.deployment(names[i], 4)
	}
	var all sync.WaitGroup
	for i := range 8 {
		e := New(s, MakeRoom, Limits{PerNamespace: 3}, clock)
		_, err := e.list(t.Context())
		require.NoError(t, err)
		all.Go(func() {
			for range 5 {
				_ = e.Evict(t.Context(), pod(names[i], "a"))
			}
		})
	}
	all.Wait()
	assert.Len(t, s.evicted, 3)
	records := 0
	for _, name := range names {
		records += strings.Count(s.annotation(name), "make-room")
	}
	assert.Len(t, s.evicted, records, "what was not done is withdrawn")
	assert.Equal(t, 3, strings.Count(s.listed(), "make-room"))
}

// TestOther sees what another process writes between check and record.
func TestOther(t *testing.T) {
	s, clock := newSite("shop/web", "shop/db")
	other := New(s, Updater, Limits{}, clock)
	s.before = func(call string) error {
		if call == "patch" {
			s.before = nil
			require.NoError(t, other.Evict(t.Context(), pod("shop/db", "b")))
		}
		return nil
	}
	err := New(s, MakeRoom, Limits{PerNamespace: 1}, clock).Evict(t.Context(), pod("shop/web", "a"))
	var limit *LimitError
	require.ErrorAs(t, err, &limit)
	assert.Len(t, s.evicted, 1)
	assert.Empty(t, s.annotation("shop/web"))
}

// A workload that others change all the time is written by its newest version only.
func TestConflict(t *testing.T) {
	for conflicts, want := range map[int]bool{maxTries - 1: true, maxTries: false} {
		s, clock := newSite("shop/web")
		n := 0
		s.before = func(call string) error {
			if call == "patch" && n < conflicts {
				n++
				s.touch(s.objects["shop/web"])
			}
			return nil
		}
		err := New(s, MakeRoom, Limits{}, clock).Evict(t.Context(), pod("shop/web", "a"))
		if want {
			require.NoError(t, err)
		} else {
			require.True(t, apierrors.IsConflict(err), err)
			assert.Empty(t, s.evicted)
		}
	}
}

// What the API server answers, and whether the record stays.
func TestAnswers(t *testing.T) {
	budget := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	budget.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}
	for _, c := range []struct {
		name   string
		answer error
		is     func(error) bool
		stays  bool
	}{
		{"budget", budget, func(err error) bool { r, ok := errors.AsType[*RefusedError](err); return ok && r.Budget }, false},
		{"forbidden", apierrors.NewForbidden(resource, "x", errors.New("no")), func(err error) bool { r, ok := errors.AsType[*RefusedError](err); return ok && !r.Budget }, false},
		{"busy", apierrors.NewTooManyRequests("busy", 1), apierrors.IsTooManyRequests, false},
		{"gone", apierrors.NewNotFound(resource, "x"), func(err error) bool { return errors.Is(err, ErrGone) }, false},
		{"another of its name", apierrors.NewConflict(resource, "x", errors.New("uid")), func(err error) bool { return errors.Is(err, ErrGone) }, false},
		{"a lost answer", errors.New("EOF"), func(err error) bool { _, ok := errors.AsType[*UncertainError](err); return ok }, true},
		{"timeout", apierrors.NewTimeoutError("late", 1), func(err error) bool { _, ok := errors.AsType[*UncertainError](err); return ok }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, clock := newSite("shop/web")
			s.before = func(call string) error {
				if call == "evict" {
					return c.answer
				}
				return nil
			}
			err := New(s, MakeRoom, Limits{}, clock).Evict(t.Context(), pod("shop/web", "a"))
			require.True(t, c.is(err), "%T %v", err, err)
			assert.Equal(t, c.stays, s.annotation("shop/web") != "")
			assert.Equal(t, c.stays, s.listed() != "")
		})
	}
}

// Nothing is evicted where the record cannot be written or read again.
func TestNoRecord(t *testing.T) {
	for _, fault := range []string{"get", "list", "patch", "read list", "write list"} {
		s, clock := newSite("shop/web")
		s.before = func(call string) error {
			if call == fault {
				return errors.New("EOF")
			}
			return nil
		}
		require.ErrorContains(t, New(s, MakeRoom, Limits{}, clock).Evict(t.Context(), pod("shop/web", "a")), "EOF")
		assert.Empty(t, s.evicted)
	}
}

// TestOwners: pods whose workload keeps no record are not evicted.
func TestOwners(t *testing.T) {
	s, clock := newSite("shop/web")
	e := New(s, MakeRoom, Limits{}, clock)
	controlled := func(apiVersion, kind, name string) *v1.Pod {
		p := pod("shop/web", "a")
		p.Labels = nil
		p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = apiVersion, kind, name
		return p
	}
	bare := pod("shop/web", "a")
	bare.OwnerReferences = nil
	for p, want := range map[*v1.Pod]string{
		bare: "pod shop/web-7d4-x has no controller that would replace it",
		controlled("apps/v1", "DaemonSet", "agent"):     "pod shop/web-7d4-x belongs to apps/DaemonSet/agent, a kind whose evictions are not recorded",
		controlled("apps/v1", "StatefulSet", "missing"): "no apps/StatefulSet/missing in namespace shop, which should replace the pod",
	} {
		var refused *RefusedError
		err := e.Evict(t.Context(), p)
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, want)
	}
	ending := pod("shop/web", "a")
	ending.DeletionTimestamp = &metav1.Time{Time: start}
	require.ErrorIs(t, e.Evict(t.Context(), ending), ErrGone)
	assert.Empty(t, s.annotation("shop/web"))
	assert.Empty(t, s.evicted)
	rollout := pod("shop/web", "a")
	rollout.Labels = map[string]string{"rollouts-pod-template-hash": "7d4"}
	_, ref, err := recordedAt(rollout)
	require.NoError(t, err)
	assert.Equal(t, "apps/ReplicaSet/web-7d4", ref.String(), "whose Rollout keeps no records")
}

// Garbage stops its own workload and no other.
func TestGarbage(t *testing.T) {
	for text, want := range map[string]string{
		"x":                                "annotation sigma-scheduler.io/evictions: entry 1 \"x\": want time/source/node",
		"2026-05-04T09:59:00Z/updater/a,":  "entry 2 \"\": want time/source/node",
		"2026-05-04T09:59:00Z//a":          "want time/source/node",
		"yesterday/updater/a":              "entry 1: time \"yesterday\": want the form 2006-01-02T15:04:05Z",
		"2126-05-04T09:59:00Z/updater/a":   "entry 1: time 2126-05-04T09:59:00Z is more than a day from now",
		strings.Repeat("x", maxLength+1):   "65537 bytes, want at most 65536",
		"2026-05-04T09:59:00Z/updater/a/b": "want time/source/node",
	} {
		s, clock := newSite("shop/web", "shop/db", "bank/db")
		s.annotate("shop/web", text)
		e := New(s, MakeRoom, Limits{}, clock)
		err := e.Evict(t.Context(), pod("shop/web", "a"))
		var limit *LimitError
		require.ErrorAs(t, err, &limit)
		require.ErrorContains(t, err, want)
		require.NoError(t, e.Evict(t.Context(), pod("shop/db", "a")))
		require.NoError(t, e.Evict(t.Context(), pod("bank/db", "a")))
		assert.Len(t, s.evicted, 2)
	}
}

// After the clock was set back an eviction counts as now, for an hour and not for longer.
func TestClockBack(t *testing.T) {
	s, clock := newSite("shop/web", "shop/db")
	e := New(s, MakeRoom, Limits{PerNamespace: 2}, clock)
	require.NoError(t, e.Evict(t.Context(), pod("shop/web", "a")))
	clock.SetTime(start.Add(-3 * time.Hour))
	require.NoError(t, e.Evict(t.Context(), pod("shop/web", "b")))
	assert.Equal(t, "2026-05-04T07:00:00Z/make-room/a,2026-05-04T07:00:00Z/make-room/b", s.annotation("shop/web"))
	require.Error(t, e.Evict(t.Context(), pod("shop/db", "b")))
	clock.SetTime(start.Add(-2 * time.Hour))
	require.NoError(t, e.Evict(t.Context(), pod("shop/db", "b")))
}

// The list reads what it wrote.
func FuzzParseList(f *testing.F) {
	f.Add("2026-05-04T09:59:00Z/updater/a/apps/Deployment/shop/web\n2026-05-04T10:59:00Z/rebalance//batch/Job/b/j")
	f.Add("2026-05-04T09:59:00.5+02:00/x/y/a/b/c/d")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseList(text, start)
		if err != nil {
			return
		}
		for _, n := range list {
			require.NotEmpty(t, n.namespace())
		}
		again, err := parseList(formatList(list), start)
		require.NoError(t, err)
		require.Equal(t, formatList(list), formatList(again))
	})
}

func FuzzParse(f *testing.F) {
	f.Add("2026-05-04T09:59:00Z/updater/a,2026-05-04T10:59:00Z/rebalance/")
	f.Add("2026-05-04T09:59:00+02:00/x/y")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parse(text, start)
		if err != nil {
			return
		}
		again, err := parse(format(list), start)
		require.NoError(t, err)
		require.Equal(t, format(list), format(again))
	})
}

// Batch pods that leave are in the list, and count against no other source.
func TestBatchPodsCountForThemselves(t *testing.T) {
	s, clock := newSite("shop/web", "shop/db")
	e := New(s, Batch, Limits{}, clock)
	for range 3 {
		require.NoError(t, e.EvictAs(t.Context(), Batch, 3, pod("shop/db", "a")))
	}
	var limit *LimitError
	require.ErrorAs(t, e.EvictAs(t.Context(), Batch, 3, pod("shop/db", "a")), &limit)
	assert.Equal(t, "source batch", limit.Limit)
	assert.Equal(t, 3, strings.Count(s.listed(), "/batch/a/"))
	other := New(s, Rebalance, Limits{PerNamespace: 1, PerNode: 1, PerHour: 1}, clock)
	require.NoError(t, other.Evict(t.Context(), pod("shop/web", "a")))
	require.ErrorAs(t, other.Evict(t.Context(), pod("shop/web", "a")), &limit)
}
