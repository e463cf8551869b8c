package kube

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// FuzzNode reads room and price from any node.
func FuzzNode(f *testing.F) {
	f.Add([]byte(`{"status":{"capacity":{"cpu":"18446744073709552","memory":"1e30","nvidia.com/gpu":"8Ei"},"allocatable":{"cpu":"8Ei","memory":"-1"}}}`))
	f.Add([]byte(`{"metadata":{"annotations":{"sigma-scheduler.io/cost-per-hour":"1e400"}},"status":{"allocatable":{"cpu":"1e-30"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := &v1.Node{}
		if podtest.Slow(data) || json.Unmarshal(data, n) != nil {
			return
		}
		for dimension, room := range capacity(n, map[string]int64{"cpu": 1}) {
			require.True(t, room > 0 && room <= binpack.MaxValue, "%s %d", dimension, room)
		}
		cost, _ := (*Prices)(nil).Of(n)
		require.True(t, cost > 0 && cost <= 1e12, "%v", cost)
	})
}

// FuzzObjects reads a rule, a plan and the annotations of a workload.
func FuzzObjects(f *testing.F) {
	f.Add([]byte(`{"spec":{"selector":{},"afterMinutes":2147483647,"maxPerNode":2147483647,"excludes":[{"max":2147483647}]}}`))
	f.Add([]byte(`{"spec":{"deadline":"2026-01-01T00:00:00Z","workloads":[{"namespace":"shop","kind":"Deployment","name":"web","requests":{"cpu":"1e30"},"nodes":[{"node":"a","pods":10000},{"node":"b","pods":2147483647}]}]}}`))
	f.Add([]byte(`{"metadata":{"annotations":{"sigma-scheduler.io/window":"0001-01-01T00:00:00Z/9999-12-31T00:00:00Z","sigma-scheduler.io/expected":"2147483648"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if podtest.Slow(data) {
			return
		}
		rule := &v1alpha1.PlacementRule{}
		if json.Unmarshal(data, rule) == nil {
			if r, err := NewRule(rule); err == nil {
				require.True(t, r.after >= 0 && r.after <= bounded.Longest, "%v", r.after)
				require.Equal(t, rule.Spec.AfterMinutes != nil, r.after > 0)
				require.False(t, r.maxPerNode < 0 || r.spreadMin < 0)
			}
		}
		plan := &v1alpha1.PlacementPlan{}
		if json.Unmarshal(data, plan) == nil {
			if p, err := NewPlan(plan, ""); err == nil {
				require.True(t, p.pods > 0 && p.pods <= mostPlanned)
			}
		}
		meta := &metav1.PartialObjectMetadata{}
		if json.Unmarshal(data, meta) == nil {
			p := planOf("apps/v1", "Deployment", &meta.ObjectMeta)
			require.False(t, p.expected != nil && *p.expected < 1)
			require.False(t, p.window != nil && (p.window.End <= p.window.Start || p.window.End-p.window.Start > longestWindow.Seconds()))
		}
	})
}
