package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// nothing is a value that does not exist.
var nothing = math.NaN()

// Report describes the comparison.
func (c *Comparison) Report() *sheet.Report {
	r := &sheet.Report{
		Title: fmt.Sprintf("Autoscalers compared: %s on %s", c.App.Name, c.Trace.Name), Summary: c.Summary(), About: c.about(),
		Facts: c.facts(), Reading: reading, Data: c.data(),
		Sections: []sheet.Section{{Tables: []sheet.Table{c.table()}, Notes: c.notes(), Charts: []sheet.Chart{c.scatter()}}},
	}
	for i := range c.Agents {
		if c.Agents[i].Name == Limit {
			t := &r.Sections[0].Tables[0]
			t.Rows[i].Above = "Knows the load, what a request costs and the workload’s state"
			if c.kept(&c.Agents[i]) {
				t.Rows[i].Above += ": the limit"
			}
		}
	}
	if charts := c.overview(); charts != nil {
		over := sheet.Section{Name: "Over time", Charts: charts, Caption: fmt.Sprintf("The run with seed %d, after its warm-up. A point is a minute; of several minutes in a point of a line the largest is drawn.", c.Seeds[0])}
		if len(c.Seeds) > 1 {
			over.Caption += fmt.Sprintf(" Bands reach from the lowest to the highest of the %d seeds.", len(c.Seeds))
		}
		each := sheet.Section{Class: "each", Name: "Agent by agent", Caption: "Plots of one kind have the same scale."}
		scale, subject := c.scale(), c.best()
		for i := range c.Agents {
			if a := &c.Agents[i]; len(a.Minutes) > 1 {
				id := fmt.Sprintf("agent-%d", i+1)
				each.Sections = append(each.Sections, sheet.Section{
					ID: id, Name: a.Name, About: c.agentText(a), Charts: c.charts(id, a, scale), Folded: true,
					Open: len(c.Agents) < 4 || a == subject || a.Name == Baseline || a.Name == Limit,
				})
			}
		}
		r.Sections = append(r.Sections, over, each)
	}
	if text, agent := c.object(); agent != nil {
		r.Sections = append(r.Sections, sheet.Section{
			Name: "The object for " + agent.Name, Copy: text,
			Caption: agent.Name + " is the cheapest of these agents that keeps the promise and runs in a cluster. Set the names of the workload, the container and its metrics; then kubectl apply -f.",
		})
	}
	return r
}

const reading = "All agents had the same load, under the guards of the controller: nothing on missing or stale data, so many changes an hour, steps and bounds. " +
	"The oracle is bound by none of them and knows what no autoscaler can; its cost is the least that keeping the promise can take, as far as its plans go. A percentile of latency is of all requests: one that was lost was never answered."

func (c *Comparison) agentText(a *Agent) string {
	s := fmt.Sprintf("cost %s, %s of requests late or lost", hours(a.cost()), percent(a.violating()))
	if !c.kept(a) {
		s += ": over the promise"
	}
	return s
}

func (c *Comparison) overSeeds() string {
	if len(c.Seeds) < 2 {
		return fmt.Sprintf("; seed %d", c.Seeds[0])
	}
	return fmt.Sprintf("; means over %d seeds ± half of the 95 %% interval", len(c.Seeds))
}

func (c *Comparison) facts() []sheet.Definition {
	t := &c.Trace
	facts := []sheet.Definition{
		{Term: "application", Text: fmt.Sprintf("%s, begins with %d × %s cores, %s GiB", c.App.Name, c.App.Replicas, sheet.Short(c.App.Cores), sheet.Short(c.App.GiB))},
		{Term: "promised", Text: fmt.Sprintf("%g %% within %g ms", c.App.Percentile, 1000*c.App.Latency)},
		{Term: "trace", Text: t.Name},
	}
	var set []string
	for _, name := range slices.Sorted(maps.Keys(t.Parameters)) {
		set = append(set, name+"="+t.Parameters[name])
	}
	if len(set) > 0 {
		facts = append(facts, sheet.Definition{Term: "with", Text: strings.Join(set, ", ")})
	}
	if t.Skip > 0 {
		facts = append(facts, sheet.Definition{Term: "from", Text: fmt.Sprintf("hour %g", t.Skip)})
	}
	facts = append(facts,
		sheet.Definition{Term: "hours", Text: fmt.Sprintf("%g, of which %g warm up", t.Hours, t.Warmup)},
		sheet.Definition{Term: "requests per second", Text: fmt.Sprintf("%s, at most %s", sheet.Short(t.Mean), sheet.Short(t.Peak))},
	)
	if t.Scale != 1 {
		facts = append(facts, sheet.Definition{Term: "scaled by", Text: fmt.Sprintf("%.4g", t.Scale)})
	}
	if t.Filled > 0 {
		facts = append(facts, sheet.Definition{Term: "filled", Text: fmt.Sprintf("%d steps", t.Filled)})
	}
	if digest := strings.TrimPrefix(t.Digest, "sha256:"); digest != "" {
		facts = append(facts, sheet.Definition{Term: "digest", Text: "sha256:" + digest[:min(12, len(digest))]})
	}
	return facts
}

// lowestShare is the begin of the axis of violations, in per cent.
const lowestShare = .001

func (c *Comparison) scatter() sheet.Chart {
	s := sheet.Scatter{
		ID: "scatter", Title: "Cost against violated requests", XAxis: "cost, core-hours + GiB-hours ÷ 8", YAxis: "late or lost, %",
		XLimit: nothing, YLimit: 100 - c.App.Percentile, YLimName: fmt.Sprintf("%g %% is allowed", 100-c.App.Percentile), Low: lowestShare,
	}
	best := c.best()
	var about []string
	for i := range c.Agents {
		a := &c.Agents[i]
		x, y := a.Mean["cost"], a.Mean["violating_percent"]
		if math.IsNaN(x.Mean) || math.IsNaN(y.Mean) {
			continue
		}
		like := c.like(a)
		if like[0] != a {
			continue // drawn
		}
		d := sheet.Dot{
			Label: groupName(like), X: x.Mean, Y: y.Mean, XErr: x.Half, YErr: y.Half, Strong: slices.Contains(like, best),
			About: fmt.Sprintf("%s: cost %s, %s of requests late or lost", namesOf(like), hours(x.Mean), percent(y.Mean)),
		}
		s.Dots = append(s.Dots, d)
		about = append(about, d.About)
	}
	if limit := c.agent(Limit); limit != nil && c.kept(limit) {
		s.XLimit, s.XLimitName = limit.cost(), "limit"
	}
	s.About = strings.Join(about, "; ") + "."
	caption := fmt.Sprintf("Cost against violated requests: left and low is good. At most %g %% of requests stands at the lower edge.", lowestShare)
	if len(c.Seeds) > 1 {
		caption += " Lines are 95 % intervals."
	}
	return sheet.Chart{Plot: s, Caption: caption}
}

func cores(m *sim.Minute) float64     { return m.CPU }
func coresUsed(m *sim.Minute) float64 { return m.CPUUsed }
func replicas(m *sim.Minute) float64  { return float64(m.Replicas) }
func gib(m *sim.Minute) float64       { return m.Memory / (1 << 30) }
func p99(m *sim.Minute) float64       { return 1000 * m.P99 }

// overview compares the agents of the summary and the cheapest of the others.
func (c *Comparison) overview() []sheet.Chart {
	const most, mostLatencies = 5, 3
	var list []*Agent
	add := func(a *Agent) {
		same := func(o *Agent) bool { return o.same(a) }
		if a != nil && len(a.Minutes) > 1 && len(list) < most && !slices.ContainsFunc(list, same) {
			list = append(list, a)
		}
	}
	add(c.best())
	add(c.agent(Baseline))
	add(c.agent(Limit))
	var rest []*Agent
	for i := range c.Agents {
		rest = append(rest, &c.Agents[i])
	}
	rank := func(a *Agent) int {
		switch {
		case slices.Contains(clairvoyant, a.Name):
			return 2
		case !c.acceptable(a):
			return 1
		}
		return 0
	}
	slices.SortStableFunc(rest, func(a, b *Agent) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.cost(), b.cost())) })
	for _, a := range rest {
		add(a)
	}
	if len(list) == 0 {
		return nil
	}
	chart := func(id, title, axis string, value func(*sim.Minute) float64) sheet.LineChart {
		l := sheet.LineChart{ID: "all-" + id, Title: title, Axis: axis, Limit: nothing}
		for _, a := range list {
			l.Lines = append(l.Lines, a.line(a.Name, value))
		}
		return l
	}
	rate := sheet.LineChart{
		ID: "all-rate", Title: "Requests over time", Axis: "requests per second", Limit: nothing,
		Lines: []sheet.Line{list[0].line("requests", func(m *sim.Minute) float64 { return m.Rate })},
	}
	late := chart("p99", "99th percentile of latency over time", "ms", p99)
	scale := c.scale()
	about := "99th percentile of latency, minute by minute."
	if len(late.Lines) > mostLatencies {
		late.Lines = late.Lines[:mostLatencies]
		about += " The others are drawn below, each by itself."
	}
	late.Log, late.Low, late.High = true, scale.low, scale.high
	late.Limit, late.LimitName = 1000*c.App.Latency, "promised"
	if slices.ContainsFunc(list[:len(late.Lines)], (*Agent).lost) {
		about += lostEdge
	}
	return []sheet.Chart{
		{Plot: rate, Caption: "Arriving requests, mean of a minute."},
		{Plot: chart("cores", "Cores asked for over time", "cores", cores), Caption: "Cores that the pods asked for."},
		{Plot: chart("replicas", "Replicas over time", "replicas", replicas), Caption: "Replicas asked for."},
		{Plot: late, Caption: about},
		c.lanes(),
	}
}

// A scale holds the ends of the axes that the agents' plots have in common.
type scale struct{ cores, replicas, gib, low, high float64 }

func (c *Comparison) scale() scale {
	s := scale{low: 1000 * c.App.Latency, high: 1000 * c.App.Latency}
	for i := range c.Agents {
		for k := range c.Agents[i].Minutes {
			m := &c.Agents[i].Minutes[k]
			s.cores, s.gib = max(s.cores, m.CPU, m.CPUUsed), max(s.gib, m.Memory/(1<<30))
			s.replicas = max(s.replicas, float64(m.Replicas), float64(m.Ready))
			if m.P95 > 0 { // not NaN
				s.low = min(s.low, 1000*m.P95)
				if !math.IsInf(m.P99, 1) {
					s.high = max(s.high, 1000*m.P99)
				}
			}
		}
	}
	s.low = max(s.low, s.high/1e5, 1e-3)
	return s
}

func (c *Comparison) charts(id string, a *Agent, s scale) []sheet.Chart {
	chart := func(name, title, axis string, high float64, lines ...sheet.Line) sheet.LineChart {
		return sheet.LineChart{ID: id + "-" + name, Title: a.Name + ": " + title, Axis: axis, Lines: lines, Limit: nothing, High: high}
	}
	asked := chart("cores", "cores over time", "cores", s.cores, a.line("asked for", cores), a.line("used", coresUsed))
	asked.Marks = a.marks("resize", resizes, cores)
	latency := chart("latency", "latency over time", "ms", s.high,
		a.line("p95", func(m *sim.Minute) float64 { return 1000 * m.P95 }), a.line("p99", p99))
	latency.Log, latency.Low, latency.Over = true, s.low, a.over()
	latency.Limit, latency.LimitName = 1000*c.App.Latency, fmt.Sprintf("promised p%g", c.App.Percentile)
	latency.Marks = a.marks("kill", kills, p99)
	count := chart("replicas", "replicas over time", "replicas", s.replicas,
		a.line("asked for", replicas), a.line("ready", func(m *sim.Minute) float64 { return float64(m.Ready) }))
	count.Marks = a.marks("scale", scalings, replicas)
	memory := chart("memory", "memory over time", "GiB", s.gib,
		a.line("asked for", gib), a.line("used", func(m *sim.Minute) float64 { return m.MemoryUsed / (1 << 30) }))
	memory.Marks = append(a.marks("resize", resizes, gib), a.marks("kill", kills, gib)...)
	return []sheet.Chart{{Plot: asked, Caption: "Cores."}, {Plot: latency, Caption: c.latencyCaption(a)}, {Plot: count, Caption: "Replicas."}, {Plot: memory, Caption: "Memory."}}
}

func (c *Comparison) latencyCaption(a *Agent) string {
	s := fmt.Sprintf("Latency, minute by minute; red at the foot: the promise was broken in %d of %d minutes.", a.violated(), len(a.Minutes))
	if a.lost() {
		s += lostEdge
	}
	return s
}

const lostEdge = " At the upper edge a percentile is lost: so many requests were never answered."
