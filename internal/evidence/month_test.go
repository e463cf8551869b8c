package evidence

import (
	"fmt"
	"hash/fnv"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
)

const (
	monthDays  = 30
	changeDay  = 12
	poisonDay  = 20
	watch      = 3 * time.Hour
	free       = "mostallocated" // what places pods where no policy is in force
	confidence = .9
)

// monday is when a month begins.
var monday = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time   { return monday.Add(time.Duration(seconds * float64(time.Second))) }
func seconds(when time.Time) float64 { return when.Sub(monday).Seconds() }

func monthSettings() pilot.Settings {
	return pilot.Settings{
		Schedule: "0 3 * * 0", History: 7, Choose: 1, Test: 2, TrainWithin: 6 * time.Hour, JudgeWithin: 6 * time.Hour,
		Against: []string{"bestfit"}, Gate: &pilot.Gate{SavingPercent: .5, Confidence: confidence, Unplaced: 0, WaitPercent: 10},
		Rollout: []pilot.Stage{
			{Rung: pilot.Rung{Mode: pilot.Shadow}, For: 6 * time.Hour},
			{Rung: pilot.Rung{Mode: pilot.Canary, Percent: 10}, For: 6 * time.Hour},
			{Rung: pilot.Rung{Mode: pilot.Canary, Percent: 50}, For: 6 * time.Hour},
			{Rung: pilot.Rung{Mode: pilot.Live}, For: 12 * time.Hour},
		},
		Guard:    pilot.Guard{OpenedVsBestFit: new(1.5), CostVsBestFit: new(1.1)},
		Watch:    watch,
		Rest:     24 * time.Hour,
		Approval: pilot.Auto,
	}
}

// A month is a cluster under a pilot, in memory: one replay of its trace, in which what decides is
// what the pilot has put in force. The recorder is the trace up to now, the Jobs run in the process.
type month struct {
	t         *testing.T
	trace     *trace.Trace
	loop      *pilot.Loop
	state     pilot.State
	cluster   pilot.Cluster
	monitor   *Monitor
	policies  map[string]*policy.Object // by digest
	decides   map[string]binpack.Policy // by digest, in the cluster; "" = without a policy
	judged    map[string]binpack.Policy // by digest, in replays
	poison    string                    // digest
	trained   *pilot.Trained
	verdict   *pilot.Verdict
	drift     *pilot.Drift
	measured  *pilot.Measured
	digests   []pilot.Day
	next      float64   // step
	cost      float64   // of the cluster so far, in hours
	costs     []float64 // at every step
	reference []float64 // of Best-Fit in its place, at every step
	opened    []opening // since the phase began, at most a day
	last      float64
	rate      float64
	story     []string
	found     float64  // when the change was noticed
	lives     []string // digests that went live, in order
	first     string   // the first of them, if it did before the change
	// When the poisoned candidate first decided, and was rolled back.
	poisoned, rolledBack float64
	judgements           [][]string // days, by judgement
	evaluations          int
}

// placing decides as the cluster of a month.
type placing struct{ m *month }

func (placing) Knowledge() binpack.Knowledge { return binpack.K0 }

func (p placing) Scorer(s *binpack.State) binpack.Scorer {
	return &placer{month: p.m, state: s, scorers: map[string]binpack.Scorer{}}
}

type placer struct {
	*month
	state   *binpack.State
	scorers map[string]binpack.Scorer
	bestFit binpack.Scorer
	asked   []float64
}

func (p *placer) Score(item binpack.Item, candidates []int32, out []float64) {
	digest := ""
	if c := &p.cluster.Primary; c.Mode == pilot.Live {
		digest = c.Digest
	}
	if c := &p.cluster.Candidate; c.Mode == pilot.Canary && share(p.trace.Instance.Apps[item.App].Name) < c.Percent {
		digest = c.Digest
	}
	if p.scorers[digest] == nil {
		p.scorers[digest] = p.decides[digest].Scorer(p.state)
	}
	p.scorers[digest].Score(item, candidates, out)
	if digest != "" && digest == p.subject() {
		if p.bestFit == nil {
			p.bestFit = byName(p.t, "bestfit").Scorer(p.state)
		}
		p.asked = slices.Grow(p.asked[:0], len(out))[:len(out)]
		p.bestFit.Score(item, candidates, p.asked)
		count := func(scores []float64) float64 {
			best := 0
			for i := range scores {
				if scores[i] > scores[best] || scores[i] == scores[best] && p.state.Before(candidates[i], candidates[best]) {
					best = i
				}
			}
			if p.state.Items(candidates[best]) == 0 {
				return 1
			}
			return 0
		}
		p.opened = append(p.opened, opening{p.last, count(out), count(p.asked)})
	}
}

// An opening is a decision of the policy that the guard looks at: whether it, and Best-Fit, opens a node.
type opening struct{ at, own, bestFit float64 }

// subject is the policy that the guard looks at.
func (m *month) subject() string {
	if m.state.Candidate != "" && m.state.Rung.Mode != "" {
		return m.state.Candidate
	}
	return m.state.InForce
}

// share is a number from 0 to 99 of an app.
func share(name string) int {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32() % 100)
}

func newMonth(t *testing.T, tr *trace.Trace, evaluations int) *month {
	loop, err := pilot.NewLoop(monthSettings())
	require.NoError(t, err)
	monitor, err := NewMonitor(tr)
	require.NoError(t, err)
	m := &month{
		t: t, trace: tr, loop: loop, monitor: monitor, policies: map[string]*policy.Object{},
		decides: map[string]binpack.Policy{"": byName(t, free)}, judged: map[string]binpack.Policy{"": byName(t, free)},
		last: math.NaN(), evaluations: evaluations,
	}
	m.reference = m.alone(byName(t, "bestfit"))
	return m
}

// alone is what the cluster costs under one policy, up to each step.
func (m *month) alone(p binpack.Policy) (costs []float64) {
	var marks []float64
	for at := watch.Seconds(); at <= monthDays*day; at += watch.Seconds() {
		marks = append(marks, at)
	}
	run, err := cerebro.NewReplayer(m.trace).Run(p, cerebro.Options{Retry: true, Brief: true, Fallback: rule.Fallback{}, Marks: marks})
	require.NoError(m.t, err)
	for _, mark := range run.Marks {
		costs = append(costs, mark.CostSeconds/hour)
	}
	return costs
}

// run plays the month.
func (m *month) run() {
	r := cerebro.NewReplayer(m.trace)
	m.next = watch.Seconds()
	advance := func(now float64) {
		for m.next <= now && m.next <= monthDays*day {
			m.pass(m.next)
			m.costs = append(m.costs, m.cost)
			m.step(m.next)
			m.next += watch.Seconds()
		}
		m.pass(now)
	}
	_, err := r.Run(placing{m}, cerebro.Options{Retry: true, Brief: true, Fallback: rule.Fallback{}, Record: func(d cerebro.Decision) {
		advance(d.Time)
		m.rate = 0
		state := r.State()
		for k, n := range state.Held() {
			m.rate += float64(n) * state.Kinds()[k].Cost
		}
	}})
	require.NoError(m.t, err)
	advance(monthDays * day)
}

func (m *month) pass(now float64) {
	if !math.IsNaN(m.last) {
		m.cost += m.rate * (now - m.last) / hour
	}
	m.last = now
}

// step lets the pilot look at the cluster, and does what it asks for.
func (m *month) step(now float64) {
	change, err := m.monitor.Until(now)
	require.NoError(m.t, err)
	if change != nil {
		m.drift = &pilot.Drift{Changed: change.Text, Since: at(change.Since)}
		m.say(now, "found: %s", change.Text)
		if m.found == 0 && now > changeDay*day {
			m.found = now
		}
	}
	if m.drift != nil {
		m.drift.At = at(now)
	}
	for len(m.digests) < int(now/day) {
		from := float64(len(m.digests)) * day
		_, digest, err := m.trace.Window(from, from+day, nil).Digests()
		require.NoError(m.t, err)
		m.digests = append(m.digests, pilot.Day{Start: at(from), Digest: digest})
	}
	m.measure(now)
	cluster := m.cluster
	before := m.state
	out := m.loop.Step(at(now), m.state, &pilot.Evidence{
		Recorded: &pilot.Recorded{Days: m.digests}, Trained: m.trained, Verdict: m.verdict, Cluster: &cluster, Measured: m.measured, Drift: m.drift,
	})
	if m.state = out.State; m.state.Phase != before.Phase || m.state.Rung != before.Rung {
		m.say(now, "%s %v: %s", m.state.Phase, m.state.Rung, strings.Join(out.Reasons, "; "))
	}
	if m.state.Phase == pilot.RolledBack && before.Phase != pilot.RolledBack && before.Candidate == m.poison {
		m.rolledBack = now
	}
	for _, a := range out.Actions {
		m.act(now, a)
	}
}

func (m *month) say(now float64, format string, args ...any) {
	m.story = append(m.story, fmt.Sprintf("day %5.2f  ", now/day)+fmt.Sprintf(format, args...))
}

// measure compares the nodes of the last steps with those of Best-Fit: the cluster's, or while a
// candidate is in shadow those that it would use.
func (m *month) measure(now float64) {
	m.measured = &pilot.Measured{At: at(now), Digest: m.subject()}
	if m.state.Phase == pilot.Shadowing {
		window := m.trace.Window(max(0, now-day), now, nil)
		var costs [2]float64
		for i, p := range []binpack.Policy{m.judged[m.state.Candidate], byName(m.t, "bestfit")} {
			run, err := cerebro.NewReplayer(window).Run(p, cerebro.Options{Retry: true, Brief: true, Fallback: rule.Fallback{}})
			require.NoError(m.t, err)
			costs[i] = run.CostSeconds
		}
		m.measured.CostVsBestFit, m.measured.OpenedVsBestFit = new(costs[0]/costs[1]), new(1.)
		return
	}
	if n := len(m.costs); n > 1 {
		m.measured.CostVsBestFit = new((m.costs[n-1] - m.costs[n-2]) / (m.reference[n-1] - m.reference[n-2]))
	}
	begin := max(now-day, seconds(m.state.Since))
	m.opened = slices.DeleteFunc(m.opened, func(o opening) bool { return o.at < begin })
	// A few more of both: of one or two nodes the ratio says nothing.
	own, bestFit := 5., 5.
	for _, o := range m.opened {
		own, bestFit = own+o.own, bestFit+o.bestFit
	}
	m.measured.OpenedVsBestFit = new(own / bestFit)
}

func (m *month) act(now float64, a pilot.Action) {
	switch a.Kind {
	case pilot.Train:
		if m.trained == nil || m.trained.Job != a.Job {
			m.train(now, a)
		}
	case pilot.Judge:
		if m.verdict == nil || m.verdict.Candidate != a.Digest || !slices.Equal(m.verdict.Days, a.Days) {
			m.judge(a)
		}
	case pilot.SetCandidate:
		m.cluster.Candidate = pilot.Applied{Digest: a.Digest, Rung: a.Rung}
		if a.Digest != "" && a.Digest == m.poison && a.Rung.Mode == pilot.Canary && m.poisoned == 0 {
			m.poisoned = now
		}
	case pilot.SetPrimary:
		m.cluster.Primary = pilot.Applied{Digest: a.Digest, Rung: pilot.Rung{Mode: pilot.Live}}
		if a.Digest == "" {
			m.cluster.Primary.Mode = pilot.Shadow
		} else {
			if m.lives = append(m.lives, a.Digest); len(m.lives) == 1 && now < changeDay*day {
				m.first = a.Digest
			}
		}
	case pilot.Tell:
	}
}

// train is the Job. On the day of the poison its candidate is the policy in force, which the verdict
// will find a tenth cheaper than it is, and which opens a node for each pod as soon as it decides.
func (m *month) train(now float64, a pilot.Action) {
	name := free
	if object := m.policies[m.state.InForce]; object != nil {
		name = filepath.Join(m.t.TempDir(), "inforce.yaml")
		require.NoError(m.t, object.Save(name))
	}
	m.trained = &pilot.Trained{Job: a.Job}
	if now >= poisonDay*day && m.poison == "" {
		m.poison = "sha256:poisoned"
		m.trained.Candidate = m.poison
		m.judged[m.poison], m.decides[m.poison] = m.judged[m.state.InForce], byName(m.t, "leastallocated")
		return
	}
	object, none, err := Learn(m.t.Context(), Lesson{
		History: m.trace.Window(seconds(a.From), seconds(a.Until), nil), Choose: 24 * time.Hour, InForce: name,
		Evaluations: m.evaluations, Seeds: 1, Seed: 1, Workers: 2, Name: "general",
	})
	require.NoError(m.t, err)
	if m.trained.None = none; object == nil {
		return
	}
	digest := object.Digest()
	p, err := object.Policy()
	require.NoError(m.t, err)
	m.trained.Candidate, m.policies[digest], m.judged[digest], m.decides[digest] = digest, object, p, p
}

// judge is the other Job: it replays what is recorded, in which the candidate takes over a day
// before the days that judge.
func (m *month) judge(a pilot.Action) {
	m.judgements = append(m.judgements, a.Days)
	from := math.Inf(1)
	for _, d := range m.digests {
		if d.Digest == a.Days[0] {
			from = seconds(d.Start)
		}
	}
	until := from + float64(len(a.Days))*day
	inForce := m.judged[m.state.InForce]
	begin := max(0, from-5*day)
	trial, err := NewTrial(m.trace.Window(begin, until+1, nil), inForce, begin, from, day, len(a.Days))
	require.NoError(m.t, err)
	account := func(p binpack.Policy) Account {
		out, err := trial.Run(p)
		require.NoError(m.t, err)
		return out
	}
	own, present, best := account(m.judged[a.Digest]), account(inForce), account(byName(m.t, "bestfit"))
	if a.Digest == m.poison {
		for i := range own.Cost {
			own.Cost[i] *= .9
		}
	}
	saving := func(other Account) pilot.Saving {
		i := Saving(own, other, confidence, 1)
		return pilot.Saving{Mean: i.Mean, Low: i.Low, High: i.High}
	}
	p := Promise(own, present, 7, .9, 1)
	m.verdict = &pilot.Verdict{
		Candidate: a.Digest, Days: a.Days, Savings: map[string]pilot.Saving{pilot.InForce: saving(present), "bestfit": saving(best)},
		Unplaced: own.Unplaced - present.Unplaced, PodsOfOneApp: own.PodsOfOneApp, Promised: pilot.Saving{Mean: p.Mean, Low: p.Low, High: p.High},
	}
}

// TestMonth is a month of a cluster whose workload changes on day 12, with a poisoned candidate on
// day 20. The rule in force is good with little memory in demand and bad once there is much; on
// other clusters the first policy that is learned goes on being good (`make pilot-records`).
func TestMonth(t *testing.T) {
	m := newMonth(t, changing(t, 106, changeDay, monthDays, .35, 1.6), 30)
	m.run()
	for _, line := range m.story {
		t.Log(line)
	}
	a := m.account()
	a.table(t)
	share, gap := a.closed(a.free)
	t.Logf("%.0f %% of a gap of %.1f %% closed, worst week %+.2f %% against %s", 100*share, gap, a.worstWeek(), free)
	require.GreaterOrEqual(t, share, .5)
	require.Greater(t, gap, 5.)
	require.LessOrEqual(t, a.worstWeek(), 1.)

	require.Positive(t, m.found)
	require.LessOrEqual(t, m.found, (changeDay+2)*day, "the change was noticed late")
	require.NotEmpty(t, m.lives, "the rule in force was not replaced")
	require.NotContains(t, m.lives, m.poison)
	require.Positive(t, m.poisoned, "the poisoned candidate never decided")
	require.LessOrEqual(t, m.rolledBack-m.poisoned, watch.Seconds())
	require.Contains(t, m.state.Refused, m.poison)
	for _, days := range m.judgements {
		require.Len(t, days, monthSettings().Test)
	}
	looked := slices.Concat(m.judgements...)
	slices.Sort(looked)
	require.Len(t, slices.Compact(looked), len(m.judgements)*monthSettings().Test, "a day was looked at twice")
}
