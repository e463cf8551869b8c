package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// A policy's name is a whole spec, in which a person approves; what cannot be done is refused with
// the field.
func TestPolicyPilots(t *testing.T) {
	d := loadCRD(t, "policypilots")
	create := func(spec string) (*v1alpha1.PolicyPilot, error) {
		stored, err := d.Create(t, fmt.Appendf(nil, "{apiVersion: sigma-scheduler.io/v1alpha1, kind: PolicyPilot, metadata: {name: p}, spec: {policy: general, %s}}", spec))
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(stored)
		require.NoError(t, err)
		p := &v1alpha1.PolicyPilot{}
		dec := json.NewDecoder(strings.NewReader(string(text)))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(p), "the Go type lacks a field")
		return p, nil
	}
	p, err := create("")
	require.NoError(t, err)
	require.Equal(t, v1alpha1.PolicyPilotSpec{
		Policy: "general", Record: v1alpha1.PilotRecord{Log: "decisions.jsonl", Size: p.Spec.Record.Size}, Baseline: "mostallocated", Against: []string{"mostallocated"},
		Train: v1alpha1.PilotTraining{Schedule: "0 3 * * 0", History: 28, Validate: 5, Test: 3, Evaluations: 2000, Seeds: 3, Within: "12h", JudgeWithin: "2h"},
		Rollout: []v1alpha1.PilotStep{
			{Mode: "shadow", For: "48h"}, {Mode: "canary", Percent: 10, For: "48h"}, {Mode: "canary", Percent: 50, For: "48h"}, {Mode: "live", For: "48h"},
		},
		Guard:    v1alpha1.PilotGuard{Every: "1m", Rest: "24h", FallbackShare: new(.01)},
		Approval: v1alpha1.PilotManual,
	}, p.Spec)
	require.EqualValues(t, 4<<30, p.Spec.Record.Size.Value())
	p, err = create("approval: Auto, gate: {}, rollout: [{mode: live}], against: [], guard: {fallbackShare: 0, ruleConflicts: 0, openedVsBestFit: 1.5, costVsBestFit: 1.05, regretPercent: 2}")
	require.NoError(t, err)
	require.Equal(t, &v1alpha1.PilotGate{SavingPercent: 2, Confidence: .95, WaitPercent: 10}, p.Spec.Gate)
	p, err = create("train: {job: {}}")
	require.NoError(t, err)
	require.Equal(t, "1 2Gi", fmt.Sprint(p.Spec.Train.Job.Cores, " ", p.Spec.Train.Job.Memory))
	for spec, want := range map[string]string{
		"approval: Auto":      "spec.approval: Invalid value: Auto needs a gate",
		"approval: Always":    `spec.approval: Unsupported value: "Always"`,
		"candidate: general":  "spec.candidate: Invalid value: the candidate is another PlacementPolicy",
		"record: {log: /etc}": "want a path below the volume",
		"record: {log: a/..}": "want a path below the volume",
		"record: {size: 1Mi}": "want more than 1Mi",
		"record: {days: 3}":   "spec.record.days: Invalid value",
		"record: {days: 27}":  "spec.record.days: Invalid value: want at least train.history",

		"train: {history: 8, validate: 5, test: 3}": "spec.train.history: Invalid value: no day is left to train on",
		"train: {history: 8}":                       "spec.train.history: Invalid value: no day is left to train on",
		"train: {test: 1}":                          "spec.train.test: Invalid value",
		"train: {within: 30s}":                      "want 1m to 168h",
		"train: {job: {cores: 0}}":                  "spec.train.job.cores: Invalid value",
		"train: {job: {cores: 257}}":                "spec.train.job.cores: Invalid value",
		"train: {job: {memory: 127Mi}}":             "want 128Mi or more",

		"rollout: []":                                                                                       "spec.rollout: Invalid value",
		"rollout: [{mode: shadow, for: 1h}]":                                                                "spec.rollout: Invalid value: want steps that end with live",
		"rollout: [{mode: canary, for: 1h}, {mode: live}]":                                                  "spec.rollout[0].percent: Invalid value: a canary has a percent",
		"rollout: [{mode: shadow, percent: 5, for: 1h}, {mode: live}]":                                      "spec.rollout[0].percent: Invalid value: a canary has a percent, and no other step has one",
		"rollout: [{mode: shadow}, {mode: live}]":                                                           "spec.rollout[0].for: Invalid value: want a time",
		"rollout: [{mode: canary, percent: 9, for: 1h}, {mode: shadow, for: 1h}, {mode: live}]":             "spec.rollout: Invalid value: each step has to decide more",
		"rollout: [{mode: canary, percent: 9, for: 1h}, {mode: canary, percent: 9, for: 2h}, {mode: live}]": "spec.rollout: Invalid value: each step has to decide more",
		"rollout: [{mode: canary, percent: 100, for: 1h}, {mode: live}]":                                    "spec.rollout[0].percent: Invalid value",
		"rollout: [{mode: half, for: 1h}, {mode: live}]":                                                    `spec.rollout[0].mode: Unsupported value: "half"`,
		"gate: {confidence: 1}":                                                                             "spec.gate.confidence: Invalid value",
		"gate: {savingPercent: -1}":                                                                         "spec.gate.savingPercent: Invalid value",
		"guard: {every: 1s}":                                                                                "want 1m to 24h",
		"guard: {fallbackShare: 2}":                                                                         "spec.guard.fallbackShare: Invalid value",
		"guard: {openedVsBestFit: 0.4}":                                                                     "spec.guard.openedVsBestFit: Invalid value",
		"guard: {costVsBestFit: 11}":                                                                        "spec.guard.costVsBestFit: Invalid value",
		"guard: {regretPercent: 101}":                                                                       "spec.guard.regretPercent: Invalid value",
		"guard: {pendingP99: 25h}":                                                                          "want 0s to 24h",
	} {
		_, err := create(spec)
		require.ErrorContains(t, err, want, spec)
	}
	stored, err := d.Create(t, []byte("{apiVersion: sigma-scheduler.io/v1alpha1, kind: PolicyPilot, metadata: {name: p}, spec: {policy: general}}"))
	require.NoError(t, err)
	_, err = d.Update(t, []byte("{apiVersion: sigma-scheduler.io/v1alpha1, kind: PolicyPilot, metadata: {name: p}, spec: {policy: other}}"), stored)
	require.ErrorContains(t, err, "a pilot keeps its policy")
}
