package mpa_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/mpatest"
)

// The stories in testdata/scenarios are of one workload, one container a pod. Amounts are
// in millicores and MiB. `make golden` writes the outputs.
//
//	workload replicas=4 cpu=1000 memory=1024 [agent=hpa] [fallback=hpa] [off]
//	         a workload within 2 … 20 replicas; without an agent, `want` sets the recommendation
//	want [replicas=6] [cpu=1500] [memory=2048] [containers=3]
//	use [cpu=500] [memory=512] [cores=2] [rate=100]
//	         of each pod, or cores of all together, from now on
//	decide [after=15s] [times=1] [changes]
//	         let time pass, observe, decide, act; with changes, holds are only counted
//	blind, seen        usage is missing from now on, or back
//	kill [pod=0]       its container runs out of memory
//	refuse, obey       actions are not carried out from now on, or are
//	slow               new pods are not ready from now on
//	resize pod=0 state=Deferred, resized
//	         an in-place resize waits, or all are done
//	jump by=-2h        the clock of the observations
//	owner replicas=0   somebody else scales
//	cap cpu=300 memory=512
//	         new pods get at most that, as from a LimitRange
//	replace            sizes come with new pods only, from now on
//	recreate [from=0] [to=1]
//	         these pods are made again, counted from the newest
//	restart [agent=lost] [memory=lost]
//	         another controller takes over with memory and state, as JSON
//	odd what=…         an oddity in the next observation
//	memory             what the guards remember
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var s *story
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "workload" {
				s = newStory(t, d)
				return ""
			}
			require.NotNil(t, s, "%s: a story begins with its workload", d.Pos)
			return s.do(t, d)
		})
	})
}

// A story is a workload and its controller.
type story struct {
	target  mpa.Target
	agent   func() mpa.Agent
	decider mpa.Agent
	control *mpa.Controller
	told    mpa.Recommendation

	now         time.Time
	skew        time.Duration // of the clock
	pods        []mpa.Pod
	next        int // number of the next pod
	size, use   mpa.Resources
	cores, rate float64
	blind, slow bool
	refuse      bool
	replace     bool          // sizes come with new pods only
	cap         mpa.Resources // of new pods
	odd         string
}

func newStory(t *testing.T, d *datadriven.TestData) *story {
	s := &story{target: mpatest.Web(), now: mpatest.Begin, use: mpa.Resources{CPU: 500, Memory: 512 << 20}}
	s.target.Off = d.HasArg("off")
	s.size = s.amounts(t, d, mpa.Resources{CPU: 1000, Memory: 1 << 30})
	s.agent = func() mpa.Agent {
		return mpatest.AgentFunc(func(*mpa.Observation) mpa.Recommendation { return s.told })
	}
	s.told = mpa.Recommendation{Source: "told", Reason: "wanted"}
	if d.HasArg("agent") {
		name := text(t, d, "agent")
		s.agent = func() mpa.Agent { return s.make(t, name) }
		if d.HasArg("fallback") {
			s.agent = func() mpa.Agent {
				return &agents.Fallback{First: s.make(t, name), Second: s.make(t, text(t, d, "fallback")), After: 3 * time.Minute}
			}
		}
	}
	s.scale(number(t, d, "replicas", 4))
	s.control = s.controller(t)
	return s
}

func (s *story) make(t *testing.T, name string) mpa.Agent {
	if name == "hpa-rps" {
		return agents.NewRateHPA(s.target, 100)
	}
	a, err := agents.Make(mpa.Spec{Name: name}, s.target, nil)
	require.NoError(t, err)
	return a
}

func (s *story) controller(t *testing.T) *mpa.Controller {
	s.decider = s.agent()
	c, err := mpa.NewController(s.target, s.decider, mpa.DefaultGuards())
	require.NoError(t, err)
	return c
}

// scale makes pods, or ends the youngest.
func (s *story) scale(n int) {
	for len(s.pods) < n {
		ready := !s.slow
		p := mpa.Pod{
			Name: fmt.Sprintf("web-%02d", s.next), Phase: mpa.Running, Started: s.clock(), Ready: ready, ReadySince: s.clock(),
			Containers: []mpa.Container{{Name: "app", Request: s.newSize(), Actual: s.newSize()}},
		}
		if s.next++; len(s.pods) == 0 || s.now.Equal(mpatest.Begin) {
			p.Started, p.ReadySince = s.now.Add(-time.Hour), s.now.Add(-time.Hour)
		}
		s.pods = append(s.pods, p)
	}
	s.pods = s.pods[:n]
}

// newSize is that of a new pod.
func (s *story) newSize() mpa.Resources {
	if s.cap == (mpa.Resources{}) {
		return s.size
	}
	return s.size.Min(s.cap)
}

// clock returns the time of the observations.
func (s *story) clock() time.Time { return s.now.Add(s.skew) }

func (s *story) do(t *testing.T, d *datadriven.TestData) string {
	pod := func() *mpa.Pod { return &s.pods[number(t, d, "pod", 0)] }
	switch d.Cmd {
	case "want":
		s.told.Replicas = int32(number(t, d, "replicas", 0))
		s.told.Containers = nil
		if r := s.amounts(t, d, mpa.Resources{}); r != (mpa.Resources{}) {
			for range number(t, d, "containers", 1) {
				s.told.Containers = append(s.told.Containers, r)
			}
		}
	case "use":
		s.use = s.amounts(t, d, s.use)
		s.cores, s.rate = real64(t, d, "cores"), real64(t, d, "rate")
	case "blind", "seen":
		s.blind = d.Cmd == "blind"
	case "refuse", "obey":
		s.refuse = d.Cmd == "refuse"
	case "slow":
		s.slow = true
	case "kill":
		pod().Containers[0].Killed = s.clock()
	case "resize":
		pod().Resize, pod().ResizeSince = mpa.Resize(text(t, d, "state")), s.clock()
	case "resized":
		for i := range s.pods {
			s.pods[i].Resize, s.pods[i].Containers[0].Actual = mpa.NoResize, s.pods[i].Containers[0].Request
		}
	case "jump":
		s.skew += span(t, d, "by", 0)
	case "owner":
		s.scale(number(t, d, "replicas", len(s.pods)))
	case "cap":
		s.cap = s.amounts(t, d, mpa.Resources{})
	case "replace":
		s.replace = true
	case "recreate":
		for i := len(s.pods) - 1 - number(t, d, "from", 0); i > len(s.pods)-1-number(t, d, "to", 1); i-- {
			k := &s.pods[i].Containers[0]
			k.Request, k.Actual, s.pods[i].Started = s.size, s.size, s.clock()
		}
	case "odd":
		s.odd = text(t, d, "what")
	case "restart":
		return s.restart(t, d)
	case "memory":
		return s.remembered()
	case "decide":
		return s.decide(t, d)
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
	return ""
}

// restart passes memory and state to another controller, as JSON.
func (s *story) restart(t *testing.T, d *datadriven.TestData) string {
	memory, err := json.Marshal(s.control.Memory())
	require.NoError(t, err)
	before := s.decider
	s.control = s.controller(t)
	if !d.HasArg("memory") {
		var m mpa.Memory
		require.NoError(t, json.Unmarshal(memory, &m))
		require.NoError(t, s.control.Restore(m))
	}
	if old, ok := before.(mpa.Stateful); ok && !d.HasArg("agent") {
		state, err := old.MarshalJSON()
		require.NoError(t, err)
		require.NoError(t, s.decider.(mpa.Stateful).UnmarshalJSON(state))
	}
	return ""
}

// observe returns what the controller sees.
func (s *story) observe(t *testing.T) *mpa.Observation {
	now := s.clock()
	o := &mpa.Observation{Time: now, Replicas: int32(len(s.pods))}
	for _, p := range s.pods {
		k := p.Containers[0]
		if !s.blind && p.Ready {
			use := s.use
			if s.cores > 0 {
				use.CPU = int64(1000 * s.cores / float64(len(s.pods)))
			}
			k.Usage = mpa.Usage{Resources: use, Time: now.Add(-5 * time.Second), Window: 30 * time.Second}
		}
		p.Containers = []mpa.Container{k}
		o.Pods = append(o.Pods, p)
	}
	if s.rate > 0 && !s.blind {
		o.Rate = mpa.Metric{Value: s.rate, Time: now.Add(-5 * time.Second)}
	}
	usage := func() *mpa.Usage { return &o.Pods[0].Containers[0].Usage }
	switch what := s.odd; what {
	case "":
	case "negative-usage":
		usage().CPU = -1
	case "old-usage":
		for i := range o.Pods {
			o.Pods[i].Containers[0].Usage.Time = now.Add(-3 * time.Minute)
		}
	case "rate-is-no-number":
		o.Rate = mpa.Metric{Value: math.NaN(), Time: now}
	case "a-pod-twice":
		o.Pods = append(o.Pods, o.Pods[0])
	case "no-pods":
		o.Pods = nil
	case "other-container":
		for i := range o.Pods {
			o.Pods[i].Containers[0].Name = "other"
		}
	case "year-9999":
		o.Time = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	default:
		t.Fatalf("unknown oddity %s", what)
	}
	s.odd = ""
	return o
}

// decide decides some times. It prints equal decisions in a row once, with first and last
// time.
func (s *story) decide(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	var last, from, to string
	held, same := 0, 0
	flush := func() {
		if same > 1 {
			from = fmt.Sprintf("%s … %s", from, to)
		}
		if same > 0 {
			fmt.Fprintf(&out, "%s  %s\n", from, last)
		}
	}
	for range number(t, d, "times", 1) {
		s.now = s.now.Add(span(t, d, "after", 15*time.Second))
		o := s.observe(t)
		decision := s.control.Decide(o)
		line := s.line(o, &decision)
		if !s.refuse && decision.Action != nil {
			s.act(decision.Action)
		}
		if d.HasArg("changes") && decision.Action == nil {
			held++
			continue
		}
		at := clockText(o.Time)
		if line != last {
			flush()
			last, from, same = line, at, 0
		}
		to = at
		same++
	}
	flush()
	if d.HasArg("changes") {
		fmt.Fprintf(&out, "holds: %d\n", held)
	}
	return out.String()
}

// clockText formats a time of day, with its date after the first day.
func clockText(t time.Time) string {
	if t.YearDay() == mpatest.Begin.YearDay() && t.Year() == mpatest.Begin.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// line formats a decision: the change or "hold", the reason, and the guards below it.
func (s *story) line(o *mpa.Observation, d *mpa.Decision) string {
	text := "hold"
	if a := d.Action; a != nil {
		if text = fmt.Sprintf("replicas %d → %d", o.Replicas, a.Replicas); a.Replicas == 0 {
			text = fmt.Sprintf("size %s → %s", sized(s.size), sized(a.Containers[0]))
		}
	}
	if n := len(d.Guards); n == 0 || !strings.HasSuffix(d.Guards[n-1], ": "+d.Reason) {
		text += ": " + d.Reason
	}
	for _, g := range d.Guards {
		text += "\n    " + g
	}
	return text
}

func sized(r mpa.Resources) string { return fmt.Sprintf("%dm %dMi", r.CPU, r.Memory>>20) }

func (s *story) act(a *mpa.Action) {
	if a.Replicas != 0 {
		s.scale(int(a.Replicas))
		return
	}
	s.size = a.Containers[0]
	if s.replace {
		return
	}
	for i := range s.pods {
		s.pods[i].Containers[0].Request, s.pods[i].Containers[0].Actual = s.size, s.size
	}
}

// remembered formats the guards' memory in a few lines.
func (s *story) remembered() string {
	m := s.control.Memory()
	times := func(list []time.Time) string {
		var texts []string
		for _, t := range list {
			texts = append(texts, clockText(t))
		}
		if texts == nil {
			return "never"
		}
		return strings.Join(texts, " ")
	}
	out := fmt.Sprintf("replicas changed: %s\nrequests changed: %s\n", times(m.ReplicaChanges), times(m.RequestChanges))
	if m.Asked != nil {
		out += fmt.Sprintf("asked for at %s: %s\n", clockText(m.Asked.Time), m.Asked.Action)
	}
	for _, p := range m.Containers[0].Peaks {
		out += fmt.Sprintf("peak at %s: %dMi\n", clockText(p.Time), p.Memory>>20)
	}
	if top := m.Containers[0].Ceiling; top != (mpa.Resources{}) {
		out += fmt.Sprintf("a node gave %s at most\n", sized(top))
	}
	return out
}

// amounts returns cpu and memory; the one that is not given stays.
func (*story) amounts(t *testing.T, d *datadriven.TestData, was mpa.Resources) mpa.Resources {
	was.CPU = int64(number(t, d, "cpu", int(was.CPU)))
	was.Memory = int64(number(t, d, "memory", int(was.Memory>>20))) << 20
	return was
}

func text(t *testing.T, d *datadriven.TestData, key string) (v string) {
	d.ScanArgs(t, key, &v)
	return v
}

func number(t *testing.T, d *datadriven.TestData, key string, without int) int {
	if d.HasArg(key) {
		d.ScanArgs(t, key, &without)
	}
	return without
}

func real64(t *testing.T, d *datadriven.TestData, key string) (v float64) {
	if !d.HasArg(key) {
		return 0
	}
	_, err := fmt.Sscan(text(t, d, key), &v)
	require.NoError(t, err)
	return v
}

func span(t *testing.T, d *datadriven.TestData, key string, without time.Duration) time.Duration {
	if !d.HasArg(key) {
		return without
	}
	v, err := time.ParseDuration(text(t, d, key))
	require.NoError(t, err)
	return v
}
