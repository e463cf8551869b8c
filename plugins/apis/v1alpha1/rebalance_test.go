package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// An empty spec is a dry run with the defaults, and what cannot be done is refused with the
// field.
func TestRebalances(t *testing.T) {
	d := loadCRD(t, "rebalances")
	create := func(spec string) (*v1alpha1.Rebalance, error) {
		stored, err := d.Create(t, fmt.Appendf(nil, "{apiVersion: sigma-scheduler.io/v1alpha1, kind: Rebalance, metadata: {name: r}, spec: {%s}}", spec))
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(stored)
		require.NoError(t, err)
		r := &v1alpha1.Rebalance{}
		dec := json.NewDecoder(strings.NewReader(string(text)))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(r), "the Go type lacks a field")
		return r, nil
	}
	r, err := create("")
	require.NoError(t, err)
	require.Equal(t, v1alpha1.RebalanceSpec{
		Goal: v1alpha1.RebalanceEmptyNodes, Mode: v1alpha1.RebalanceDryRun, ReliefPercent: 100, MinReplicas: 2, InFlight: 5, StopWhen: v1alpha1.RebalanceStop{PendingPods: 1},
	}, r.Spec)
	r, err = create("mode: Auto, movesPerHour: 100, inFlight: 2, stopWhen: {pendingPods: 5, query: up, threshold: 0.5}")
	require.NoError(t, err)
	require.Equal(t, v1alpha1.RebalanceStop{PendingPods: 5, Query: "up", Threshold: new(0.5)}, r.Spec.StopWhen)
	for _, moves := range []string{"0%", ".", "100%", "99.5%", "0", "50", "999999"} {
		_, err = create(fmt.Sprintf("moves: %q", moves))
		require.Equal(t, moves != ".", err == nil, "%s: %v", moves, err)
	}
	for spec, want := range map[string]string{
		"mode: Full":        `spec.mode: Unsupported value: "Full"`,
		"reliefPercent: 49": "spec.reliefPercent: Invalid value",
		"goal: Faster":      `spec.goal: Unsupported value: "Faster"`,
		"every: 59s":        "spec.every: Invalid value",
		"every: 169h":       "spec.every: Invalid value",
		"every: hourly":     "spec.every",
		`moves: "101%"`:     "spec.moves: Invalid value",
		`moves: "-1"`:       "spec.moves: Invalid value",
		`moves: "1000000"`:  "spec.moves: Invalid value",
		"minReplicas: 0":    "spec.minReplicas: Invalid value",
		"nodeSelector: [a]": "spec.nodeSelector",
		"chain: 3":          "chain",
		"movesPerHour: 0":   "spec.movesPerHour: Invalid value",
		"inFlight: 11":      "spec.inFlight: Invalid value",

		"stopWhen: {pendingPods: 0}":            "spec.stopWhen.pendingPods: Invalid value",
		"stopWhen: {query: up}":                 "query and threshold go together",
		"stopWhen: {threshold: 1}":              "query and threshold go together",
		`stopWhen: {query: "", threshold: 1}`:   "spec.stopWhen.query: Invalid value",
		`stopWhen: {query: up, threshold: "1"}`: "spec.stopWhen.threshold",
	} {
		_, err := create(spec)
		require.ErrorContains(t, err, want, spec)
	}
}
