package recommender

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/internal/crdtest"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/learned"
)

// general is a ScalingPolicy with the numbers that are set by hand.
func general(uid types.UID) *v1alpha1.ScalingPolicy {
	p := &v1alpha1.ScalingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "general", UID: uid, Generation: 1},
		Spec:       v1alpha1.ScalingPolicySpec{Version: learned.Version, Numbers: map[string]float64{}},
	}
	for _, n := range learned.Numbers {
		p.Spec.Numbers[n.Name] = n.Default
	}
	return p
}

// learns is an object whose algorithm needs a policy, and promises a latency.
func learns(o *v1alpha1.MultidimPodAutoscaler) {
	o.Spec.Recommender.Algorithm, o.Spec.Recommender.Policy = "learned", "general"
	o.Spec.Recommender.Learning = &v1alpha1.Learning{Begin: "Serving"}
	o.Spec.SLO = &v1alpha1.SLO{Latency: &v1alpha1.LatencySLO{Percentile: 95, Target: metav1.Duration{Duration: 200 * time.Millisecond}}}
	o.Spec.Metrics.Prometheus = &v1alpha1.Prometheus{Server: "main", Queries: v1alpha1.Queries{Latency: "a"}}
}

// edit changes the policy.
func (w *world) edit(f func(p *v1alpha1.ScalingPolicy)) {
	w.t.Helper()
	p := &v1alpha1.ScalingPolicy{}
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKey{Name: "general"}, p))
	f(p)
	p.Generation++
	require.NoError(w.t, w.Update(w.t.Context(), p))
}

// A policy is accepted, replaced, broken, deleted and made again while it serves: the last
// good one decides all the time, each decision has its digest, and the journal gives all
// decisions again.
func TestPolicyWhileItServes(t *testing.T) {
	w := newWorld(t, learns)
	w.options.JournalDir = t.TempDir()
	require.NoError(t, w.Create(t.Context(), general("a")))
	weights := agents.Weights{}
	expect := func(status metav1.ConditionStatus, reason, message string) string {
		t.Helper()
		for range 3 {
			w.step(15 * time.Second)
		}
		o := w.read()
		c := condition(&o.Status, v1alpha1.ConditionAccepted)
		assert.Equal(t, status, c.Status)
		assert.Equal(t, reason, c.Reason)
		assert.Contains(t, c.Message, message)
		assert.Equal(t, "learned", o.Status.Decision.Source)
		assert.Equal(t, "learned", w.objects[key].journaled.session.Setup().Agent.Name)
		assert.Equal(t, o.Status.Decision.PolicyDigest, w.objects[key].journaled.session.Setup().Agent.Digest)
		assert.Len(t, w.objects[key].learned.weights, 1, "what no longer decides is unloaded")
		for _, data := range w.objects[key].learned.weights {
			weights.Add(data)
		}
		assert.Equal(t, metav1.ConditionFalse, condition(&o.Status, v1alpha1.ConditionFallback).Status)
		return o.Status.Decision.PolicyDigest
	}
	first := expect(metav1.ConditionTrue, "PolicyValid", "ScalingPolicy general, sha256:")
	w.edit(func(p *v1alpha1.ScalingPolicy) { p.Spec.Numbers["kappa"] = .9 })
	second := expect(metav1.ConditionTrue, "PolicyValid", "")
	assert.NotEqual(t, first, second)
	w.edit(func(p *v1alpha1.ScalingPolicy) { p.Spec.Numbers["kappa"] = 9 })
	assert.Equal(t, second, expect(metav1.ConditionFalse, "PolicyInvalid", "spec.numbers.kappa: 9 is not within 0 and 2; the last one, "+second))
	assert.Equal(t, "PolicyInvalid", w.read().Status.Summary)
	require.NoError(t, w.Delete(t.Context(), general("a")))
	assert.Equal(t, second, expect(metav1.ConditionFalse, "PolicyMissing", "there is no ScalingPolicy general; the last one, "+second))
	again := general("b")
	again.Spec.Numbers["kappa"] = .8
	require.NoError(t, w.Create(t.Context(), again))
	third := expect(metav1.ConditionTrue, "PolicyValid", "")
	assert.NotEqual(t, second, third)

	w.restart()
	v, err := journal.ReplayFile(filepath.Join(w.options.JournalDir, "shop", "web.mpa.jsonl"), weights)
	require.NoError(t, err)
	assert.Nil(t, v.First)
	assert.Equal(t, 15, v.Equal)
	assert.Zero(t, v.Recorded)
	assert.Len(t, weights, 3)
}

// Without a policy the fallback decides, and the policy as soon as it is there.
func TestFallbackWithoutPolicy(t *testing.T) {
	for _, test := range []struct {
		name, algorithm, reason, message string
		change                           func(o *v1alpha1.MultidimPodAutoscaler)
		create                           func(p *v1alpha1.ScalingPolicy)
		repair                           func(w *world)
	}{
		{
			name: "no such policy", algorithm: "hpa+vpa", reason: "PolicyMissing", message: "there is no ScalingPolicy general; the fallback decides",
			repair: func(w *world) { require.NoError(t, w.Create(t.Context(), general("a"))) },
		},
		{
			name: "the spec's fallback", algorithm: "more", reason: "PolicyMissing", message: "there is no ScalingPolicy general",
			change: func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Fallback = &v1alpha1.Fallback{Algorithm: "more"} },
			repair: func(w *world) { require.NoError(t, w.Create(t.Context(), general("a"))) },
		},
		{
			name: "none named", algorithm: "hpa+vpa", reason: "PolicyMissing", message: "spec.recommender.policy: the algorithm learned needs a ScalingPolicy",
			change: func(o *v1alpha1.MultidimPodAutoscaler) { o.Spec.Recommender.Policy = "" },
			create: func(*v1alpha1.ScalingPolicy) {},
			repair: func(w *world) {
				o := w.read()
				o.Spec.Recommender.Policy = "general"
				o.Generation++
				require.NoError(t, w.Update(t.Context(), o))
			},
		},
		{
			name: "another version", algorithm: "hpa+vpa", reason: "PolicyInvalid", message: "ScalingPolicy general: spec.version 2: this program knows 1",
			create: func(p *v1alpha1.ScalingPolicy) { p.Spec.Version = 2 },
			repair: func(w *world) { w.edit(func(p *v1alpha1.ScalingPolicy) { p.Spec.Version = 1 }) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, learns, func(o *v1alpha1.MultidimPodAutoscaler) {
				if test.change != nil {
					test.change(o)
				}
			})
			if test.create != nil {
				p := general("a")
				test.create(p)
				require.NoError(t, w.Create(t.Context(), p))
			}
			o := w.step(0)
			c := condition(&o.Status, v1alpha1.ConditionAccepted)
			assert.Equal(t, metav1.ConditionFalse, c.Status)
			assert.Equal(t, test.reason, c.Reason)
			assert.Equal(t, test.reason, o.Status.Summary)
			assert.Contains(t, c.Message, test.message)
			c = condition(&o.Status, v1alpha1.ConditionFallback)
			assert.Equal(t, test.reason, c.Reason)
			assert.Contains(t, c.Message, test.algorithm+" decides: ")
			assert.Equal(t, v1alpha1.PhaseFallback, o.Status.Phase)
			assert.Empty(t, o.Status.Decision.PolicyDigest)
			assert.Equal(t, test.algorithm, w.objects[key].journaled.session.Setup().Agent.Name)
			require.NotNil(t, o.Status.Recommendation, "it decides")

			test.repair(w)
			o = w.step(15 * time.Second)
			assert.Equal(t, metav1.ConditionTrue, condition(&o.Status, v1alpha1.ConditionAccepted).Status)
			assert.NotEmpty(t, o.Status.Decision.PolicyDigest)
			assert.Equal(t, "learned", w.objects[key].journaled.session.Setup().Agent.Name)
			assert.NotEqual(t, v1alpha1.PhaseFallback, o.Status.Phase)

			// Another name does not go on with the last policy, and a rule needs none.
			o.Spec.Recommender.Policy = "other"
			o.Generation++
			require.NoError(t, w.Update(t.Context(), o))
			o = w.step(15 * time.Second)
			assert.Equal(t, v1alpha1.PhaseFallback, o.Status.Phase)
			o.Spec.Recommender.Algorithm, o.Spec.Recommender.Policy = "hpa+vpa", ""
			o.Generation++
			require.NoError(t, w.Update(t.Context(), o))
			o = w.step(15 * time.Second)
			assert.Zero(t, condition(&o.Status, v1alpha1.ConditionAccepted))
		})
	}
}

// A learned agent that has no opinion is replaced after three minutes, or by the spec's
// fallback after its time.
func TestFallbackOfLearned(t *testing.T) {
	for name, fallback := range map[string]*v1alpha1.Fallback{
		"hpa+vpa": nil,
		"more":    {Algorithm: "more", After: &metav1.Duration{Duration: time.Minute}},
	} {
		w := newWorld(t, learns, func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Spec.SLO, o.Spec.Fallback = nil, fallback // it needs a promise
		})
		require.NoError(t, w.Create(t.Context(), general("a")))
		o := w.step(0)
		assert.Nil(t, o.Status.Recommendation)
		c := condition(&o.Status, v1alpha1.ConditionFallback)
		assert.Equal(t, "NotNeeded", c.Reason)
		for range 13 {
			o = w.step(15 * time.Second)
		}
		c = condition(&o.Status, v1alpha1.ConditionFallback)
		assert.Equal(t, "NoOpinion", c.Reason)
		assert.Contains(t, c.Message, name+" decides: learned has had no opinion for")
		assert.Equal(t, v1alpha1.PhaseFallback, o.Status.Phase)
		assert.NotNil(t, o.Status.Recommendation)
	}
}

// A recommender that restarts goes on with the policy that is there; after it is gone the
// fallback decides.
func TestPolicyGoneOverRestart(t *testing.T) {
	w := newWorld(t, learns)
	w.options.JournalDir = t.TempDir()
	require.NoError(t, w.Create(t.Context(), general("a")))
	digest := w.step(0).Status.Decision.PolicyDigest
	w.restart()
	assert.Equal(t, digest, w.step(15*time.Second).Status.Decision.PolicyDigest)
	assert.True(t, w.objects[key].journaled.session.Resumed, "the agent has its memory from the journal")
	require.NoError(t, w.Delete(t.Context(), general("a")))
	w.restart()
	o := w.step(15 * time.Second)
	assert.Equal(t, v1alpha1.PhaseFallback, o.Status.Phase)
	assert.Equal(t, "hpa+vpa", w.objects[key].journaled.session.Setup().Agent.Name)
	assert.NoError(t, w.objects[key].journaled.session.Broken)
}

// However policies come and go between restarts and failed writes, a decision has the digest
// of a policy that was accepted or none, and the journal gives all decisions again.
func TestPoliciesComeAndGo(t *testing.T) {
	for seed := range uint64(5) {
		d := rand.New(rand.NewPCG(seed, 17))
		w := newWorld(t, learns)
		w.options.JournalDir = t.TempDir()
		fails := false
		w.patch = func(next func() error) error {
			if fails {
				return errors.New("the API server is away")
			}
			return next()
		}
		weights, with, without := agents.Weights{}, 0, 0
		for range 150 {
			p := general(types.UID(fmt.Sprint(d.Uint64())))
			p.Spec.Numbers["kappa"] = float64(d.IntN(6)) / 2 // 2.5 is too large
			switch d.IntN(12) {
			case 0:
				require.NoError(t, client.IgnoreNotFound(w.Delete(t.Context(), p)))
			case 1:
				if w.Create(t.Context(), p) != nil {
					w.edit(func(old *v1alpha1.ScalingPolicy) { old.Spec = p.Spec })
				}
			case 2:
				w.restart()
			}
			if _, file, err := policyOf(p); err == nil {
				weights.Add(file)
			}
			w.clock.Step(15 * time.Second)
			w.usage.at = w.clock.Now()
			w.usage.cpu = fmt.Sprintf("%dm", 50+d.IntN(450))
			fails = d.IntN(8) == 0
			_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			require.True(t, err == nil || fails, "%v", err)
			decision := w.read().Status.Decision
			switch {
			case decision == nil:
			case decision.PolicyDigest == "":
				without++
			default:
				with++
				require.Contains(t, weights, decision.PolicyDigest)
			}
		}
		require.True(t, with > 20 && without > 5, "%d decisions with a policy, %d without", with, without)
		w.restart()
		v, err := journal.ReplayFile(filepath.Join(w.options.JournalDir, "shop", "web.mpa.jsonl"), weights)
		require.NoError(t, err)
		require.Nil(t, v.First)
		require.Greater(t, v.Equal, 50)
		require.Zero(t, v.Recorded)
		require.NoFileExists(t, filepath.Join(w.options.JournalDir, "shop", "web.mpa.jsonl.broken"))
	}
}

// The status of a policy says what is wrong with it.
func TestPolicyStatus(t *testing.T) {
	w := newWorld(t)
	reconcile := func() v1alpha1.ScalingPolicyStatus {
		t.Helper()
		name := client.ObjectKey{Name: "general"}
		_, err := (&policies{w.Client}).Reconcile(t.Context(), ctrl.Request{NamespacedName: name})
		require.NoError(t, err)
		p := &v1alpha1.ScalingPolicy{}
		require.NoError(t, client.IgnoreNotFound(w.Get(t.Context(), name, p)))
		return p.Status
	}
	assert.Zero(t, reconcile())
	require.NoError(t, w.Create(t.Context(), general("a")))
	s := reconcile()
	require.Len(t, s.Conditions, 1)
	assert.Equal(t, metav1.ConditionTrue, s.Conditions[0].Status)
	_, file, err := policyOf(general("a"))
	require.NoError(t, err)
	assert.Equal(t, agents.Weights{}.Add(file), s.Digest)
	for _, test := range []struct {
		spoil   func(p *v1alpha1.ScalingPolicy)
		message string
	}{
		{func(p *v1alpha1.ScalingPolicy) { p.Spec.Numbers["kapa"] = 1 }, "spec.numbers.kapa: there is no such number"},
		{func(p *v1alpha1.ScalingPolicy) { p.Spec.Numbers["kappa"] = -1 }, "spec.numbers.kappa: -1 is not within 0 and 2"},
		{func(p *v1alpha1.ScalingPolicy) { delete(p.Spec.Numbers, "kappa") }, "spec.numbers.kappa is missing"},
		{func(p *v1alpha1.ScalingPolicy) { p.Spec.Version = 2 }, "spec.version 2: this program knows 1"},
		{func(p *v1alpha1.ScalingPolicy) {
			p.Spec.Provenance = &v1alpha1.ScalingProvenance{FirstScenario: 900_000, Scenarios: 1}
		}, "spec.provenance: trained on scenarios from 900000 up"},
		{func(p *v1alpha1.ScalingPolicy) { p.Spec.Provenance = &v1alpha1.ScalingProvenance{FirstScenario: -1} }, "spec.provenance: trained"},
	} {
		w.edit(test.spoil)
		s = reconcile()
		require.Len(t, s.Conditions, 1)
		assert.Equal(t, metav1.ConditionFalse, s.Conditions[0].Status)
		assert.Equal(t, "Invalid", s.Conditions[0].Reason)
		assert.Contains(t, s.Conditions[0].Message, test.message)
		assert.Empty(t, s.Digest)
		w.edit(func(p *v1alpha1.ScalingPolicy) { p.Spec = general("a").Spec })
		assert.Equal(t, metav1.ConditionTrue, reconcile().Conditions[0].Status)
	}
}

// What the API server stores of a file that was trained is that file, digest and all.
func TestAppliedPolicyIsTheFile(t *testing.T) {
	d := crdtest.Load(t, "../../manifests/mpa/crds/scalingpolicies.yaml")
	trained := learned.Policy{Name: "general", Values: learned.Defaults(), Provenance: learned.Provenance{
		Method: "swarm", Evaluations: 36, Seed: 1 << 60, FirstScenario: 600_000, Scenarios: 110, Traces: true, Journaled: 12,
		Journal: "sha256:1", Replaces: "sha256:2", Pieces: 4, PiecesCost: 1. / 3, ReplacesCost: .7,
		Objective: .1 + .2, Cost: 2. / 3, Kept: 50, PairKept: 52, Module: "v1.2.3",
	}}
	trained.Values[0] /= 3
	from := reflect.ValueOf(trained.Provenance)
	for i := range from.NumField() {
		require.False(t, from.Field(i).IsZero(), "the test leaves out %s", from.Type().Field(i).Name)
	}
	file, err := trained.Marshal()
	require.NoError(t, err)
	stored, err := d.Create(t, file)
	require.NoError(t, err)
	text, err := json.Marshal(stored)
	require.NoError(t, err)
	var o v1alpha1.ScalingPolicy
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&o))
	p, data, err := policyOf(&o)
	require.NoError(t, err)
	assert.Equal(t, string(file), string(data))
	assert.Equal(t, trained.Provenance, p.Provenance)
	_, err = d.Create(t, learned.GeneralFile())
	require.NoError(t, err)

	for _, test := range []struct{ old, replaced, want string }{
		{"version: 1", "version: 0", "spec.version: Invalid value: 0"},
		{"  version: 1\n", "", "spec.version: Required value"},
		{"kappa: 0.7", "kappa: much", "spec.numbers.kappa: Invalid value: \"string\""},
		{"kappa: 0.7", "kappa: .nan", "NaN"},
		{"scenarios: 110", "scenarios: -1", "spec.provenance.scenarios: Invalid value: -1"},
		{"traces: true", "tracks: true", "spec.provenance.tracks"},
	} {
		require.Contains(t, string(file), test.old)
		_, err := d.Create(t, []byte(strings.Replace(string(file), test.old, test.replaced, 1)))
		require.ErrorContains(t, err, test.want)
	}
	var columns []string
	for _, c := range d.Definition.Spec.Versions[0].AdditionalPrinterColumns {
		columns = append(columns, c.Name)
	}
	assert.Equal(t, []string{"Accepted", "Reason", "Method", "Digest", "Age"}, columns)
}
