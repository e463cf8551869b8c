package recommender

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/target"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// targetOf returns the promise and the bounds of an object's spec.
func targetOf(o *v1alpha1.MultidimPodAutoscaler) (mpa.Target, error) {
	c := &o.Spec.Constraints
	t := mpa.Target{Replicas: mpa.Range{Min: max(1, c.Replicas.Min), Max: c.Replicas.Max}}
	if o.Spec.ScaleTargetRef.Knative() {
		t.Replicas = mpa.Range{Min: 1, Max: math.MaxInt32} // Knative keeps them
	}
	if slo := o.Spec.SLO; slo != nil {
		if l := slo.Latency; l != nil {
			t.SLO.Percentile, t.SLO.Latency = l.Percentile, l.Target.Seconds()
		}
		if p := slo.Throughput; p != nil {
			t.SLO.Throughput = p.Target.AsApproximateFloat64()
		}
	}
	for _, k := range c.Containers {
		spec := mpa.ContainerSpec{Name: k.Name, Min: amountsOf(k.MinAllowed), Max: amountsOf(v1alpha1.Amounts(k.MaxAllowed))}
		spec.CPU, spec.Memory = slices.Contains(k.Controlled, corev1.ResourceCPU), slices.Contains(k.Controlled, corev1.ResourceMemory)
		t.Containers = append(t.Containers, spec)
	}
	boundByUse(o, &t)
	t.Off = o.Spec.Mode == v1alpha1.ModeOff || o.Spec.ScaleTargetRef.Knative()
	if k := o.Spec.Concurrency; k != nil && k.Pod != v1alpha1.PodKnative && k.Mode == v1alpha1.ConcurrencyApply && limitEnded(o) == "" {
		t.Limit = mpa.Range{Min: k.Min, Max: k.Max}
	}
	return t, t.Validate()
}

func amountsOf(a v1alpha1.Amounts) (r mpa.Resources) {
	if a.CPU != nil {
		r.CPU = podspec.Amount("cpu", a.CPU)
	}
	if a.Memory != nil {
		r.Memory = podspec.Amount("memory", a.Memory)
	}
	return r
}

// memoryOf returns the guards' memory from a status.
func memoryOf(o *v1alpha1.MultidimPodAutoscaler, t *mpa.Target) (memory mpa.Memory) {
	m := o.Status.Memory
	if m == nil {
		return memory
	}
	times := func(list []metav1.MicroTime) (out []time.Time) {
		for _, t := range list {
			out = append(out, t.UTC())
		}
		return out
	}
	memory = mpa.Memory{Time: m.Time.UTC(), ReplicaChanges: times(m.ReplicaChanges), RequestChanges: times(m.RequestChanges), CPUChanges: times(m.CPUChanges), LimitChanges: times(m.LimitChanges)}
	if m.Blind != nil {
		memory.Blind = m.Blind.UTC()
	}
	if last := o.Status.Recommendation; m.Asked && last != nil {
		if a, ok := actionOf(last, t); ok {
			memory.Asked = &mpa.Asked{Time: last.Time.UTC(), Action: a}
		}
	}
	for _, k := range m.Containers {
		c := mpa.ContainerMemory{Name: k.Name}
		for _, p := range k.Peaks {
			c.Peaks = append(c.Peaks, mpa.Peak{Time: p.Time.UTC(), Memory: podspec.Amount("memory", &p.Memory)})
		}
		if top := k.Ceiling; top != nil {
			c.Ceiling, c.CeilingTime = amountsOf(v1alpha1.Amounts{CPU: top.CPU, Memory: top.Memory}), top.Time.UTC()
		}
		memory.Containers = append(memory.Containers, c)
	}
	return memory
}

// actionOf returns the action behind a recommendation. It is unknown if the target has other
// containers now.
func actionOf(r *v1alpha1.Recommendation, t *mpa.Target) (mpa.Action, bool) {
	switch r.Change {
	case v1alpha1.ChangeReplicas:
		return mpa.Action{Replicas: r.Replicas}, true
	case v1alpha1.ChangeLimit:
		return mpa.Action{Limit: r.Limit}, true
	case v1alpha1.ChangeRequests:
	}
	var a mpa.Action
	for _, spec := range t.Containers {
		i := slices.IndexFunc(r.Containers, func(k v1alpha1.ContainerRequests) bool { return k.Name == spec.Name })
		if i < 0 {
			return a, false
		}
		a.Containers = append(a.Containers, amountsOf(v1alpha1.Amounts{CPU: r.Containers[i].CPU, Memory: r.Containers[i].Memory}))
	}
	return a, len(a.Containers) > 0
}

// remembered is the inverse of memoryOf.
func remembered(m mpa.Memory) *v1alpha1.Memory {
	times := func(list []time.Time) (out []metav1.MicroTime) {
		for _, t := range list {
			out = append(out, micro(t))
		}
		return out
	}
	if m.Time.IsZero() {
		return nil // no memory yet
	}
	out := &v1alpha1.Memory{
		Time: micro(m.Time), Asked: m.Asked != nil,
		ReplicaChanges: times(m.ReplicaChanges), RequestChanges: times(m.RequestChanges),
		CPUChanges: times(m.CPUChanges), LimitChanges: times(m.LimitChanges),
	}
	if !m.Blind.IsZero() {
		out.Blind = new(micro(m.Blind))
	}
	for _, k := range m.Containers {
		c := v1alpha1.ContainerMemory{Name: k.Name}
		for _, p := range k.Peaks {
			c.Peaks = append(c.Peaks, v1alpha1.Peak{Time: micro(p.Time), Memory: *bytes(p.Memory)})
		}
		if !k.CeilingTime.IsZero() {
			c.Ceiling = &v1alpha1.Ceiling{Time: micro(k.CeilingTime)}
			if k.Ceiling.CPU > 0 {
				c.Ceiling.CPU = millis(k.Ceiling.CPU)
			}
			if k.Ceiling.Memory > 0 {
				c.Ceiling.Memory = bytes(k.Ceiling.Memory)
			}
		}
		out.Containers = append(out.Containers, c)
	}
	return out
}

func millis(v int64) *resource.Quantity { return resource.NewMilliQuantity(v, resource.DecimalSI) }
func bytes(v int64) *resource.Quantity  { return resource.NewQuantity(v, resource.BinarySI) }

// number returns a measured number as a quantity with three decimals.
func number(m mpa.Metric) *resource.Quantity {
	return millis(int64(math.Round(1000 * min(m.Value, math.MaxInt64/1e4))))
}

func sizes(t *mpa.Target, list []mpa.Resources) (out []v1alpha1.ContainerRequests) {
	if len(list) != len(t.Containers) {
		return nil
	}
	for i, spec := range t.Containers {
		out = append(out, v1alpha1.ContainerRequests{Name: spec.Name, CPU: millis(list[i].CPU), Memory: bytes(list[i].Memory)})
	}
	return out
}

// begin returns a status with the parts that do not depend on a decision: the recommender's
// conditions as they were, so that unchanged ones keep their time, and the last
// recommendation. In mode Off it drops the recommendation: when the mode acts again, nothing
// would have checked the old one.
func begin(o *v1alpha1.MultidimPodAutoscaler, s *object) *v1alpha1.MultidimPodAutoscalerStatus {
	next := &v1alpha1.MultidimPodAutoscalerStatus{ObservedGeneration: o.Generation, Recommendation: o.Status.Recommendation.DeepCopy()}
	if o.Spec.Mode == v1alpha1.ModeOff {
		next.Recommendation = nil
	} else if s.written.recommendation != nil && (next.Recommendation == nil || next.Recommendation.ID < s.written.recommendation.ID) {
		next.Recommendation = s.written.recommendation
	}
	for _, c := range o.Status.Conditions {
		switch c.Type {
		case v1alpha1.ConditionRecommendation, v1alpha1.ConditionMetrics, v1alpha1.ConditionActive, v1alpha1.ConditionLimited, v1alpha1.ConditionFallback:
			next.Conditions = append(next.Conditions, c)
		case v1alpha1.ConditionAccepted, v1alpha1.ConditionRetraining:
			if o.Spec.Recommender.Algorithm == algorithmLearned {
				next.Conditions = append(next.Conditions, c)
			}
		}
	}
	return next
}

// set sets a condition, with its reason as one word in CamelCase.
func set(o *v1alpha1.MultidimPodAutoscaler, s *v1alpha1.MultidimPodAutoscalerStatus, kind string, status metav1.ConditionStatus, reason, format string, args ...any) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: bounded.Text(fmt.Sprintf(format, args...)), ObservedGeneration: o.Generation,
	})
}

func condition(s *v1alpha1.MultidimPodAutoscalerStatus, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// refusedStatus returns the status of a refused object. The guards' memory stays.
func refusedStatus(o *v1alpha1.MultidimPodAutoscaler, s *object, w *target.Workload, no *refusal, now time.Time) *v1alpha1.MultidimPodAutoscalerStatus {
	next := begin(o, s)
	next.Phase, next.Learning, next.Retraining = v1alpha1.PhaseRefused, o.Status.Learning, o.Status.Retraining
	if next.Memory = o.Status.Memory; s.journaled.session != nil {
		next.Memory = remembered(s.journaled.session.Memory())
	}
	s.journaled.rememberTemplate(next.Memory)
	if w != nil {
		next.Observed = &v1alpha1.Observed{Time: metav1.NewTime(now), Replicas: w.Replicas}
	}
	set(o, next, v1alpha1.ConditionActive, metav1.ConditionFalse, no.reason, "%s", no.message)
	set(o, next, v1alpha1.ConditionMetrics, metav1.ConditionUnknown, "Refused", "Nothing is measured.")
	for _, kind := range []string{v1alpha1.ConditionRecommendation, v1alpha1.ConditionLimited, v1alpha1.ConditionFallback} {
		set(o, next, kind, metav1.ConditionFalse, "Refused", "Nothing is decided.")
	}
	next.Summary = summary(o, next)
	return next
}

// statusOf returns the status after a decision.
func (r *reconciler) statusOf(o *v1alpha1.MultidimPodAutoscaler, s *object, ob *mpa.Observation, d *mpa.Decision, problems []collect.Problem) *v1alpha1.MultidimPodAutoscalerStatus {
	setup := s.journaled.session.Setup()
	next := begin(o, s)
	next.Observed = observed(o, ob)
	next.Decision = decision(&setup.Target, d)
	next.Decision.PolicyDigest = setup.Agent.Digest
	next.Learning = s.journaled.learning(d)
	next.Memory = remembered(s.journaled.session.Memory())
	s.journaled.rememberTemplate(next.Memory)
	if d.Action != nil {
		next.Recommendation = &v1alpha1.Recommendation{
			ID: s.journaled.id + 1, Time: micro(d.Time), Change: v1alpha1.ChangeRequests,
			Replicas: d.Next.Replicas, From: ob.Replicas, Containers: sizes(&setup.Target, d.Next.Containers), Reason: bounded.Text(d.Reason),
		}
		switch {
		case d.Action.Limit != 0:
			next.Recommendation.Change, next.Recommendation.Limit = v1alpha1.ChangeLimit, d.Action.Limit
		case d.Action.Replicas != 0:
			next.Recommendation.Change = v1alpha1.ChangeReplicas
		}
	}
	blind := slices.ContainsFunc(problems, func(p collect.Problem) bool { return p.Source == collect.Usage }) && d.Wanted.Replicas == 0
	silent := d.Recommended.Replicas == 0 && d.Recommended.Containers == nil
	fallback, _ := s.journaled.session.Agent().(interface{ Active() bool })
	instead := fallback != nil && fallback.Active() && !blind
	second, after := fallbackOf(&setup)
	noPolicy := s.learned.accepted != nil && !s.learned.accepted.serves
	s.learned.setAccepted(o, next)
	s.retrain.noteAlarm()
	if *s.retrain.status != (v1alpha1.RetrainingStatus{}) {
		next.Retraining = s.retrain.status
	}
	r.setRetraining(o, s, next)
	r.setWebhook(o, next)

	switch {
	case o.Spec.ScaleTargetRef.Knative():
		set(o, next, v1alpha1.ConditionActive, metav1.ConditionTrue, "Knative", "What a pod takes is learned; Knative's autoscaler keeps the replicas.")
	case o.Spec.Mode == v1alpha1.ModeOff:
		set(o, next, v1alpha1.ConditionActive, metav1.ConditionTrue, "RecommendsOnly", "%s recommends; in mode Off nothing is changed.", setup.Agent)
	default:
		set(o, next, v1alpha1.ConditionActive, metav1.ConditionTrue, "Sizing", "The workload is sized by %s.", setup.Agent)
	}
	if len(problems) == 0 {
		set(o, next, v1alpha1.ConditionMetrics, metav1.ConditionTrue, "Fresh", "All metrics are measured and fresh.")
	} else {
		texts := make([]string, len(problems))
		for i := range problems {
			texts[i] = problems[i].Error()
		}
		set(o, next, v1alpha1.ConditionMetrics, metav1.ConditionFalse, problems[0].Reason, "%s", strings.Join(texts, "; "))
	}
	switch {
	case d.Wanted.Replicas == 0:
		set(o, next, v1alpha1.ConditionRecommendation, metav1.ConditionFalse, camel(guard(d, "Held")), "%s", d.Reason)
	case o.Spec.ScaleTargetRef.Knative():
		s.journaled.setLearned(o, next)
	case silent:
		set(o, next, v1alpha1.ConditionRecommendation, metav1.ConditionFalse, "NoOpinion", "%s: %s", d.Recommended.Source, d.Recommended.Reason)
	default:
		set(o, next, v1alpha1.ConditionRecommendation, metav1.ConditionTrue, "Decided", "%s: %s", d.Recommended.Source, d.Recommended.Reason)
	}
	if len(d.Guards) > 0 {
		set(o, next, v1alpha1.ConditionLimited, metav1.ConditionTrue, camel(guard(d, "")), "%s", strings.Join(d.Guards, "; "))
	} else {
		set(o, next, v1alpha1.ConditionLimited, metav1.ConditionFalse, "NotLimited", "What is wanted is within bounds and guards.")
	}
	switch {
	case noPolicy:
		set(o, next, v1alpha1.ConditionFallback, metav1.ConditionTrue, s.learned.accepted.reason, "%s decides: %v", setup.Agent, s.learned.accepted.err)
	case instead:
		set(o, next, v1alpha1.ConditionFallback, metav1.ConditionTrue, "NoOpinion", "%s decides: %s", second, d.Recommended.Reason)
	case next.Learning != nil && next.Learning.Phase == string(mpa.OfflineTraining):
		set(o, next, v1alpha1.ConditionFallback, metav1.ConditionFalse, "OfflineTraining", "%s decides, %s is asked beside it.", second, setup.Agent)
	case fallback == nil:
		set(o, next, v1alpha1.ConditionFallback, metav1.ConditionFalse, "NoFallback", "The spec names none.")
	default:
		set(o, next, v1alpha1.ConditionFallback, metav1.ConditionFalse, "NotNeeded", "%s decides, or decided less than %v ago.", setup.Agent, after)
	}
	switch {
	case blind && (o.Status.Decision == nil || o.Status.Phase == v1alpha1.PhaseStarting):
		next.Phase = v1alpha1.PhaseStarting
	case instead || noPolicy:
		next.Phase = v1alpha1.PhaseFallback
	case o.Spec.Mode == v1alpha1.ModeOff || o.Spec.ScaleTargetRef.Knative():
		next.Phase = v1alpha1.PhaseRecommending
	case d.Action != nil:
		next.Phase = v1alpha1.PhaseScaling
	default:
		next.Phase = v1alpha1.PhaseHolding
	}
	next.Summary = summary(o, next)
	return next
}

// guard returns the name of the first guard that intervened.
func guard(d *mpa.Decision, otherwise string) string {
	if len(d.Guards) == 0 {
		return otherwise
	}
	name, _, _ := strings.Cut(d.Guards[0], ":")
	return name
}

// camel joins a guard's name to one word, as a condition's reason requires.
func camel(name string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == '-' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// summary returns the reason of the worst condition, the updater's included unless the mode
// is Off, when they are out of date.
func summary(o *v1alpha1.MultidimPodAutoscaler, next *v1alpha1.MultidimPodAutoscalerStatus) string {
	updater := &o.Status
	if o.Spec.Mode == v1alpha1.ModeOff {
		updater = &v1alpha1.MultidimPodAutoscalerStatus{}
	}
	for _, bad := range []struct {
		of     *v1alpha1.MultidimPodAutoscalerStatus
		kind   string
		status metav1.ConditionStatus
	}{
		{next, v1alpha1.ConditionActive, metav1.ConditionFalse},
		{next, v1alpha1.ConditionAccepted, metav1.ConditionFalse},
		{next, v1alpha1.ConditionMetrics, metav1.ConditionFalse},
		{updater, v1alpha1.ConditionAble, metav1.ConditionFalse},
		{updater, v1alpha1.ConditionResize, metav1.ConditionTrue},
		{next, v1alpha1.ConditionRecommendation, metav1.ConditionFalse},
	} {
		if c := condition(bad.of, bad.kind); c.Status == bad.status && c.Reason != "InProgress" {
			return c.Reason
		}
	}
	return "OK"
}

func observed(o *v1alpha1.MultidimPodAutoscaler, ob *mpa.Observation) *v1alpha1.Observed {
	maxAge := collect.MaxAge(o)
	out := &v1alpha1.Observed{Time: metav1.NewTime(ob.Time), Replicas: ob.Replicas}
	for _, p := range ob.Pods {
		if p.Ready && p.Phase == mpa.Running && !p.Deleting {
			out.Ready++
		}
	}
	if ob.Rate.Known(ob.Time, maxAge) {
		out.Rate = number(ob.Rate)
	}
	if ob.Throughput.Known(ob.Time, maxAge) {
		out.Throughput = number(ob.Throughput)
	}
	if ob.Latency.Known(ob.Time, maxAge) {
		out.Latency = &metav1.Duration{Duration: time.Duration(min(ob.Latency.Value, 1e6) * float64(time.Second)).Round(time.Microsecond)}
	}
	if ratio, ok := sloRatio(o, ob); ok {
		out.SLORatio = strconv.FormatFloat(ratio, 'f', 2, 64)
	}
	return out
}

// mostRatio represents a promise that is not kept at all.
const mostRatio = 1000

// sloRatio returns how much of the SLO is used up; above 1 it is violated. Throughput is
// promised up to the rate of requests.
func sloRatio(o *v1alpha1.MultidimPodAutoscaler, ob *mpa.Observation) (ratio float64, ok bool) {
	slo, maxAge := o.Spec.SLO, collect.MaxAge(o)
	if slo == nil {
		return 0, false
	}
	if slo.Latency != nil && ob.Latency.Known(ob.Time, maxAge) {
		ratio, ok = ob.Latency.Value/slo.Latency.Target.Seconds(), true
	}
	if slo.Throughput != nil && ob.Throughput.Known(ob.Time, maxAge) {
		want := slo.Throughput.Target.AsApproximateFloat64()
		if ob.Rate.Known(ob.Time, maxAge) {
			want = min(want, ob.Rate.Value)
		}
		if want > 0 {
			ratio = max(ratio, want/ob.Throughput.Value)
		}
		ok = true
	}
	return min(ratio, mostRatio), ok
}

func decision(t *mpa.Target, d *mpa.Decision) *v1alpha1.Decision {
	state := d.Wanted
	if state.Replicas == 0 {
		state = d.Next
	}
	out := &v1alpha1.Decision{
		Time: metav1.NewTime(d.Time), Action: action(d), Source: d.Recommended.Source,
		Replicas: state.Replicas, Containers: sizes(t, state.Containers), Reason: bounded.Text(d.Reason),
	}
	for _, g := range d.Guards {
		out.Guards = append(out.Guards, bounded.Text(g))
	}
	return out
}

func action(d *mpa.Decision) string {
	switch {
	case d.Action == nil:
		return "Hold"
	case d.Action.Limit != 0:
		return "Limit"
	case d.Action.Replicas != 0:
		return "Scale"
	default:
		return "Resize"
	}
}
