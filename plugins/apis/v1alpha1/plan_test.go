package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

func planText(spec string) []byte {
	return fmt.Appendf(nil, "{apiVersion: sigma-scheduler.io/v1alpha1, kind: PlacementPlan, metadata: {name: p}, spec: {%s}}", spec)
}

// A plan without a mode is a dry run, and what no plan can be is refused with the field.
func TestPlans(t *testing.T) {
	d := loadCRD(t, "placementplans")
	const good = `deadline: "2026-05-04T08:00:00Z", workloads: [{namespace: shop, kind: Deployment, name: web, requests: {cpu: 500m, memory: 1}, nodes: [{node: a, pods: 2}]}]`
	stored, err := d.Create(t, planText(good))
	require.NoError(t, err)
	text, err := json.Marshal(stored)
	require.NoError(t, err)
	var plan v1alpha1.PlacementPlan
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&plan), "the Go type lacks a field")
	require.Equal(t, v1alpha1.PlanDryRun, plan.Spec.Mode)
	require.Equal(t, []v1alpha1.PlannedNode{{Node: "a", Pods: 2}}, plan.Spec.Workloads[0].Nodes)
	for _, tt := range []struct{ from, to, want string }{
		{"deadline:", "mode: Live, deadline:", `spec.mode: Unsupported value: "Live"`},
		{`deadline: "2026-05-04T08:00:00Z", `, "", "spec.deadline: Required value"},
		{"2026-05-04T08:00:00Z", "tomorrow", "spec.deadline"},
		{"pods: 2", "pods: 0", "spec.workloads[0].nodes[0].pods: Invalid value: 0"},
		{"pods: 2", "pods: 10001", "spec.workloads[0].nodes[0].pods: Invalid value: 10001"},
		{"[{node: a, pods: 2}]", "[]", "spec.workloads[0].nodes: Invalid value"},
		{"name: web, ", "", "spec.workloads[0].name: Required value"},
		{"namespace: shop, ", "", "spec.workloads[0].namespace: Required value"},
		{"500m", "lots", "spec.workloads[0].requests.cpu"},
		{"pods: 2", "pods: 2, zone: b", "spec.workloads[0].nodes[0].zone"},
	} {
		require.Contains(t, good, tt.from)
		_, err := d.Create(t, planText(strings.Replace(good, tt.from, tt.to, 1)))
		require.ErrorContains(t, err, tt.want)
	}
}
