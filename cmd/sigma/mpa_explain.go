package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/journal"
)

// An mpaExplanation is why a workload was sized, or left as it is.
type mpaExplanation struct {
	Object string    `json:"object"`
	From   string    `json:"from"` // file and line, or cluster
	Time   time.Time `json:"time,omitzero"`
	Agent  string    `json:"agent"` // that is to decide
	Off    bool      `json:"off"`   // recommends only
	// What was observed.
	Observed mpaObserved `json:"observed"`
	// Source is the agent that spoke, Recommended what it wanted and Because why; not known
	// from a cluster, where Wanted is what guards left of it.
	Source      string    `json:"source,omitempty"`
	Recommended *mpaState `json:"recommended,omitempty"`
	Because     string    `json:"because,omitempty"`
	Wanted      *mpaState `json:"wanted,omitempty"`
	Guards      []string  `json:"guards"`
	// Action: hold, scale or resize; To what, and the reason.
	Action string    `json:"action"`
	To     *mpaState `json:"to,omitempty"`
	Reason string    `json:"reason"`
	// Last is the last change, when the decision is to hold, and Outcomes what came of it.
	Last     *mpaChange        `json:"last,omitempty"`
	Outcomes []journal.Outcome `json:"outcomes"`
	// Conditions of the object that are worth a look.
	Conditions []string `json:"conditions,omitempty"`
}

type mpaObserved struct {
	Replicas   int32             `json:"replicas"`
	Ready      int32             `json:"ready"`
	Containers []mpaContainerUse `json:"containers,omitempty"`
	Rate       *float64          `json:"requests_per_second,omitempty"`
	Throughput *float64          `json:"answers_per_second,omitempty"`
	Latency    *float64          `json:"latency_seconds,omitempty"`
	Percentile float64           `json:"slo_percentile,omitempty"`
	Promised   float64           `json:"slo_latency_seconds,omitempty"`
}

// An mpaContainerUse is one container's use, a mean over the pods that tell.
type mpaContainerUse struct {
	Name       string        `json:"name"`
	Pods       int           `json:"pods"` // that tell
	Use        mpa.Resources `json:"use"`
	Request    mpa.Resources `json:"request"`
	AgeSeconds float64       `json:"age_seconds"` // of the newest
}

type mpaState struct {
	Replicas   int32      `json:"replicas,omitempty"`
	Containers []mpaSized `json:"containers,omitempty"`
}

type mpaSized struct {
	Name string `json:"name"`
	mpa.Resources
}

type mpaChange struct {
	Time   time.Time `json:"time"`
	To     *mpaState `json:"to"`
	Reason string    `json:"reason"`
}

type mpaExplainFlags struct {
	log, at, format, namespace string
	change                     bool
	cluster                    clusterFlags
}

func (a *app) mpaExplain() *cobra.Command {
	var f mpaExplainFlags
	cmd := &cobra.Command{
		Use:   "explain NAME | --log FILE",
		Short: "Tell why a workload was sized, or left as it is",
		Long: `Explain tells of one decision: what was observed, what the agent wanted and why,
which guards changed or held it, what was done and what came of it. From a cluster it is the
last one of a MultidimPodAutoscaler, as its status has it; from a journal any.`,
		Example: `  sigma mpa explain -n shop web
  sigma mpa explain --log journal/shop/web.jsonl --at 2026-03-02T08:15:00Z
  sigma mpa explain --log web-hpa-1.jsonl --change --format json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("want one name, not %s", strings.Join(args, " "))
			}
			return nil
		},
		RunE: a.do(func(cmd *cobra.Command, args []string) error {
			e, err := f.explanation(cmd, args)
			if err != nil {
				return err
			}
			if f.format == "json" {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", "  ")
				enc.SetEscapeHTML(false)
				return enc.Encode(e)
			}
			e.print(a.stdout)
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.log, "log", "", "journal to read in place of a cluster")
	flags.StringVar(&f.at, "at", "", "the last decision up to this time, as 2026-03-02T08:15:00Z")
	flags.BoolVar(&f.change, "change", false, "the last decision that changed something")
	flags.StringVar(&f.format, "format", "table", "table or json")
	flags.StringVarP(&f.namespace, "namespace", "n", "default", "namespace of the object")
	f.cluster.addAccess(flags)
	return cmd
}

func (f *mpaExplainFlags) explanation(cmd *cobra.Command, args []string) (*mpaExplanation, error) {
	if err := oneOf("format", f.format, "table", "json"); err != nil {
		return nil, err
	}
	if f.log == "" {
		for _, name := range []string{"at", "change"} {
			if err := onlyWith(cmd, name, "log"); err != nil {
				return nil, err
			}
		}
		if len(args) == 0 {
			return nil, usagef("want the name of a MultidimPodAutoscaler, or --log FILE")
		}
		return f.fromCluster(cmd.Context(), args[0])
	}
	for _, name := range []string{"namespace", "kubeconfig", "context", "timeout"} {
		if cmd.Flags().Changed(name) {
			return nil, usagef("--%s does not go with --log", name)
		}
	}
	if len(args) > 0 {
		return nil, usagef("%s does not go with --log: a journal is of one object", args[0])
	}
	var last time.Time
	if f.at != "" {
		var err error
		if last, err = time.Parse(time.RFC3339, f.at); err != nil {
			return nil, usagef("--at %q: want a time like 2026-03-02T08:15:00Z", f.at)
		}
	}
	var e *mpaExplanation
	err := until(cmd.Context(), func() (err error) {
		e, err = f.fromJournal(last)
		return err
	})
	if err != nil {
		return nil, err // e may still be written to
	}
	return e, nil
}

// fromJournal explains the last decision up to a time.
func (f *mpaExplainFlags) fromJournal(until time.Time) (*mpaExplanation, error) {
	file, err := os.Open(f.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	var setup, decider *journal.Setup
	var found, change *journal.Decided
	var outcomes []journal.Outcome
	line := 0
	r := journal.NewReader(f.log, file)
	for record, err := range r.Records() {
		if err != nil {
			return nil, err
		}
		switch {
		case record.Start != nil:
			setup = &record.Start.Setup
		case record.Outcome != nil:
			if change != nil && record.Outcome.Decided.Equal(change.Decision.Time) {
				outcomes = append(outcomes, *record.Outcome)
			}
		case !until.IsZero() && record.Decision.Decision.Time.After(until):
		default:
			if record.Decision.Decision.Action != nil {
				change, outcomes = record.Decision, nil
			} else if f.change {
				continue
			}
			found, decider, line = record.Decision, setup, r.Line()
		}
	}
	if found == nil {
		what := "decision"
		if f.change {
			what = "change"
		}
		if !until.IsZero() {
			what += " up to " + f.at
		}
		return nil, fmt.Errorf("%s has no %s", f.log, what)
	}
	e := explainDecided(decider, found)
	e.From = fmt.Sprintf("%s:%d", f.log, line)
	e.Outcomes = append(e.Outcomes, outcomes...)
	if change != nil && change != found {
		e.Last = &mpaChange{change.Decision.Time, actionState(&decider.Target, change.Decision.Action), change.Decision.Reason}
	}
	return e, nil
}

func explainDecided(s *journal.Setup, found *journal.Decided) *mpaExplanation {
	d := &found.Decision
	e := &mpaExplanation{
		Object: s.Object, Time: d.Time, Agent: s.Agent.String(), Off: s.Target.Off, Observed: observedOf(&s.Target, &found.Observation),
		Source: d.Recommended.Source, Because: d.Recommended.Reason, Guards: append([]string{}, d.Guards...),
		Action: "hold", Reason: d.Reason, Outcomes: []journal.Outcome{},
	}
	if d.Recommended.Source != "" {
		e.Recommended = stateOf(&s.Target, d.Recommended.Replicas, d.Recommended.Containers)
	}
	if d.Wanted.Replicas != 0 {
		e.Wanted = stateOf(&s.Target, d.Wanted.Replicas, d.Wanted.Containers)
	}
	if d.Action != nil {
		e.To, e.Action = actionState(&s.Target, d.Action), "resize"
		if d.Action.Replicas != 0 {
			e.Action = "scale"
		}
	}
	return e
}

func actionState(t *mpa.Target, a *mpa.Action) *mpaState { return stateOf(t, a.Replicas, a.Containers) }

func stateOf(t *mpa.Target, replicas int32, sizes []mpa.Resources) *mpaState {
	s := &mpaState{Replicas: replicas}
	for i, r := range sizes {
		if i < len(t.Containers) && r != (mpa.Resources{}) {
			s.Containers = append(s.Containers, mpaSized{t.Containers[i].Name, r})
		}
	}
	return s
}

func observedOf(t *mpa.Target, o *mpa.Observation) mpaObserved {
	seen := mpaObserved{Replicas: o.Replicas, Percentile: t.SLO.Percentile, Promised: t.SLO.Latency}
	number := func(m mpa.Metric) *float64 {
		if m.Time.IsZero() || m.Value-m.Value != 0 { // none, NaN or infinite
			return nil
		}
		return &m.Value
	}
	seen.Rate, seen.Throughput, seen.Latency = number(o.Rate), number(o.Throughput), number(o.Latency)
	for _, spec := range t.Containers {
		use := mpaContainerUse{Name: spec.Name}
		var newest time.Time
		for _, p := range o.Pods {
			for _, k := range p.Containers {
				if k.Name != spec.Name || p.Deleting || p.Phase == mpa.Ended {
					continue
				}
				use.Request = k.Request
				if !k.Usage.Time.IsZero() {
					use.Pods++
					use.Use = use.Use.Add(k.Usage.Resources)
					if k.Usage.Time.After(newest) {
						newest = k.Usage.Time
					}
				}
			}
		}
		if use.Pods > 0 {
			use.Use.CPU /= int64(use.Pods)
			use.Use.Memory /= int64(use.Pods)
			use.AgeSeconds = o.Time.Sub(newest).Seconds()
		}
		seen.Containers = append(seen.Containers, use)
	}
	for _, p := range o.Pods {
		if p.Ready && !p.Deleting && p.Phase == mpa.Running {
			seen.Ready++
		}
	}
	return seen
}

// fromCluster explains what the status of an object says.
func (f *mpaExplainFlags) fromCluster(ctx context.Context, name string) (*mpaExplanation, error) {
	f.cluster.fleet = "open"
	client, err := f.cluster.connect()
	if err != nil {
		return nil, err
	}
	data, err := client.Raw(ctx, v1alpha1.SchemeGroupVersion, "multidimpodautoscalers", f.namespace, name)
	if err != nil {
		return nil, err
	}
	var o v1alpha1.MultidimPodAutoscaler
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", f.namespace, name, err)
	}
	return explainObject(&o)
}

func explainObject(o *v1alpha1.MultidimPodAutoscaler) (*mpaExplanation, error) {
	s := &o.Status
	e := &mpaExplanation{
		Object: o.Namespace + "/" + o.Name, From: "cluster", Agent: o.Spec.Recommender.Algorithm, Off: o.Spec.Mode == v1alpha1.ModeOff,
		Guards: []string{}, Outcomes: []journal.Outcome{}, Action: "hold",
	}
	for _, c := range s.Conditions {
		bad := c.Status == "True"
		switch c.Type {
		case v1alpha1.ConditionRecommendation, v1alpha1.ConditionMetrics, v1alpha1.ConditionActive, v1alpha1.ConditionAble:
			bad = c.Status != "True"
		}
		if bad {
			e.Conditions = append(e.Conditions, fmt.Sprintf("%s=%s, %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	if ob := s.Observed; ob != nil {
		e.Time = ob.Time.Time // of the decision, where there is one
		e.Observed.Replicas, e.Observed.Ready = ob.Replicas, ob.Ready
		if ob.Rate != nil {
			v := ob.Rate.AsApproximateFloat64()
			e.Observed.Rate = &v
		}
		if ob.Throughput != nil {
			v := ob.Throughput.AsApproximateFloat64()
			e.Observed.Throughput = &v
		}
		if ob.Latency != nil {
			v := ob.Latency.Seconds()
			e.Observed.Latency = &v
		}
	}
	if slo := o.Spec.SLO; slo != nil && slo.Latency != nil {
		e.Observed.Percentile, e.Observed.Promised = slo.Latency.Percentile, slo.Latency.Target.Seconds()
	}
	d, last := s.Decision, s.Recommendation
	if d == nil {
		if len(e.Conditions) == 0 {
			return nil, fmt.Errorf("%s: nothing was decided yet: does a recommender named %q run?", e.Object, o.Spec.Recommender.Name)
		}
		e.Reason = "nothing is decided"
		return e, nil
	}
	e.Time, e.Source, e.Reason = d.Time.Time, d.Source, d.Reason
	e.Guards = append(e.Guards, d.Guards...)
	e.Wanted = &mpaState{d.Replicas, sized(d.Containers)}
	if d.Action != "Hold" {
		e.Action = strings.ToLower(d.Action)
	}
	if last != nil {
		to := &mpaState{Containers: sized(last.Containers)}
		if last.Change == v1alpha1.ChangeReplicas {
			to = &mpaState{Replicas: last.Replicas}
		}
		if e.Action == "hold" {
			e.Last = &mpaChange{last.Time.Time, to, last.Reason}
		} else {
			e.To = to
		}
		if c := s.Actuation; c != nil && c.ID == last.ID {
			e.Outcomes = append(e.Outcomes, journal.Outcome{
				Time: c.Time.Time, ID: c.ID, Decided: last.Time.Time, Result: string(c.Outcome), Reason: c.Message,
			})
		}
	}
	return e, nil
}

func sized(list []v1alpha1.ContainerRequests) (out []mpaSized) {
	for _, k := range list {
		s := mpaSized{Name: k.Name}
		if k.CPU != nil {
			s.CPU = k.CPU.MilliValue()
		}
		if k.Memory != nil {
			s.Memory = k.Memory.Value()
		}
		out = append(out, s)
	}
	return out
}

// String is a state in a few words.
func (s *mpaState) String() string {
	var parts []string
	if s.Replicas != 0 {
		parts = append(parts, plural(int(s.Replicas), "replica"))
	}
	for _, k := range s.Containers {
		var amounts []string
		if k.CPU != 0 {
			amounts = append(amounts, fmt.Sprintf("%dm", k.CPU))
		}
		if k.Memory != 0 {
			amounts = append(amounts, fmt.Sprintf("%d MiB", k.Memory>>20))
		}
		parts = append(parts, k.Name+" "+strings.Join(amounts, ", "))
	}
	if len(parts) == 0 {
		return "nothing in particular"
	}
	return strings.Join(parts, "; ")
}

func (e *mpaExplanation) print(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-10s "+format+"\n", append([]any{name}, args...)...)
	}
	at := ""
	if !e.Time.IsZero() {
		at = e.Time.UTC().Format(" at " + time.DateTime + " MST")
	}
	line("workload", "%s%s (%s)", e.Object, at, e.From)
	line("observed", "%s, %d ready", plural(int(e.Observed.Replicas), "replica"), e.Observed.Ready)
	for _, k := range e.Observed.Containers {
		if k.Pods == 0 {
			line("", "%s: no usage", k.Name)
			continue
		}
		line("", "%s: cpu %dm of %dm%s, memory %d of %d MiB%s; mean of %s, %.3g s old", k.Name,
			k.Use.CPU, k.Request.CPU, share(k.Use.CPU, k.Request.CPU), k.Use.Memory>>20, k.Request.Memory>>20, share(k.Use.Memory, k.Request.Memory),
			plural(k.Pods, "pod"), k.AgeSeconds)
	}
	if v := e.Observed.Rate; v != nil {
		line("", "%.4g requests/s", *v)
	}
	if v := e.Observed.Throughput; v != nil {
		line("", "%.4g answers/s", *v)
	}
	if v := e.Observed.Latency; v != nil {
		promise := ""
		if e.Observed.Promised > 0 {
			promise = fmt.Sprintf("; %.4g ms are promised", 1000*e.Observed.Promised)
		}
		line("", "latency %.4g ms at the %g %% percentile%s", 1000**v, e.Observed.Percentile, promise)
	}
	agent := e.Agent
	if e.Source != "" && e.Source != e.Agent {
		agent += ", by " + e.Source
	}
	switch {
	case e.Recommended != nil:
		line("agent", "%s: %s", agent, e.Recommended)
		line("because", "%s", e.Because)
	default:
		line("agent", "%s", agent)
	}
	if e.Wanted != nil {
		line("wanted", "%s", e.Wanted)
	}
	for i, g := range e.Guards {
		line([]string{"guards", ""}[min(i, 1)], "%s", g)
	}
	switch {
	case e.To != nil:
		line("done", "%s: %s", e.Action, e.To)
		if e.Recommended == nil {
			line("because", "%s", e.Reason)
		}
	default:
		line("held", "%s", e.Reason)
	}
	if e.Last != nil {
		line("before", "%s at %s: %s", e.Last.To, e.Last.Time.UTC().Format(time.DateTime), e.Last.Reason)
	}
	for _, o := range e.Outcomes {
		text := fmt.Sprintf("%s after %v", o.Result, o.Time.Sub(o.Decided).Round(time.Millisecond))
		line("outcome", "%s", strings.Join(append([]string{text}, noEmpty(o.Reason)...), ": "))
	}
	if len(e.Outcomes) == 0 && cmp.Or(e.To, toOf(e.Last)) != nil {
		line("outcome", "none yet")
	}
	for i, c := range e.Conditions {
		line([]string{"conditions", ""}[min(i, 1)], "%s", c)
	}
}

func toOf(c *mpaChange) *mpaState {
	if c == nil {
		return nil
	}
	return c.To
}

func noEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// share is a part in whole percent, in brackets; empty of nothing.
func share(part, whole int64) string {
	if whole == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d %%)", part*100/whole)
}

// writeLine writes a value as one line of JSON.
func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
