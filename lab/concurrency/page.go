package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

const about = `Functions of real requests, each in a cgroup and a network namespace of its own: .25 cores in periods of 100 ms, 256 MiB. Before it, in the namespace and outside of the
cgroup, stands ` + "`sigma-gate`" + ` with a limit that changes while it runs, and reads the function's cpu and memory from its cgroup. Vegeta (as a library) is 400 clients in closed loop, so the
gate is always full; a client pauses .1 s after a failure. The namespace has loopback alone, as the containers of a pod share it, and Vegeta dials within it: there is no
other way in, and no cable that would add a time of its own. A function that dies is started again at once. Function, gate and clients have the most
shares that the kernel gives, before everything else on the machine.

The profiles are those of a study with Knative's queue-proxy on another machine; no learner was tuned on them.`

const aboutCurves = `Answers a second at each limit: windows of 2 s until there are 150 answers or 6 s are over, after a second at the limit. Limits rise in one process, which has run for 3 s. **killed**: the function ran out of memory, and
is not compared. The simulator (` + "`mpa/sim`" + ` with one pod, the same clients and the same queue) gets what the function declares: its wait, the bytes that a request holds, quota, memory limit, GOMEMLIMIT, and the
pool's connections as the most that are worked on. Measured beforehand in a run of its own are the demand of a request, in a busy and in an idle function, the time between gate
and function, and the memory at rest. The busy limit is 64, and 8 where memory binds. For ` + "`threads`" + ` the demands at 1 and 310 give the contention. Nothing is fitted to the limits of the table.`

const aboutLearners = `Each run begins 3 s after a new process, at limit 10, within limits 1 to 310, and has %d windows. A window is several of half a second, until half of the 95 %% interval of the throughput is below 3 %%, or 3 s are
over; it begins when no more are inside than its limit. **Found** is the number of windows until the learner's answer stays where the throughput of the curve above is within 7 %% of the best within the
guard: of the limits that do not kill, to which steps from n to n · .85 ÷ the share of the memory at n lead, by the curve, from 10 on; – = it does not, or its limit kills. **Lost** is the throughput that was lost in all windows, against that best.
A fixed limit is judged by the curve. ` + "`paper`" + ` has no guard and its own limits, 10, 30 … 310. Others than ` + "`" + capacity.Default + "`" + ` have one run each.`

// Targets of the issue: shares of the throughput, windows, and restarts.
var (
	mustDeviate, aimDeviate = records.AtMost(10), records.AtMost(5)
	mustFind, aimFind       = records.AtMost(6), records.AtMost(3)
	none                    = records.AtMost(0)
)

// page is the page with the results.
func (r *results) page(command string) *records.Page {
	p := records.NewPage("What one pod can take, on real servers")
	p.Text(about)
	if len(r.Left) > 0 {
		p.Text("Left out: " + strings.Join(r.Left, "; ") + ".")
	}
	p.Heading("Figures")
	figures := records.LineTable()
	for _, l := range r.lines() {
		figures.Rows = append(figures.Rows, l.Row())
	}
	p.Table(figures)
	p.Heading("Throughput by limit")
	p.Text(aboutCurves)
	for i := range r.Curves {
		p.Text(r.Curves[i].title())
		p.Table(r.Curves[i].table())
	}
	if len(r.Runs) > 0 {
		p.Heading("Learners")
		p.Text(fmt.Sprintf(aboutLearners, r.Windows))
		p.Table(r.learners())
	}
	refused := 0
	for i := range r.Runs {
		refused += r.Runs[i].Refused
	}
	if refused > 0 {
		p.Text(fmt.Sprintf("%d windows of half a second were refused as none, as they had more cpu than the quota gives, and measured again.", refused))
	}
	p.Text(fmt.Sprintf("%.0f CPU-seconds of the clients, %s %s.", r.Seconds, command, r.Version))
	return p
}

// lines are the figures with targets.
func (r *results) lines() (list []records.Line) {
	for i := range r.Curves {
		c := &r.Curves[i]
		off, at := c.deviation()
		list = append(list, records.Line{
			Work: "`" + c.Profile + "`", Figure: "simulated ÷ measured throughput − 1, the largest of all limits without kills, %", Value: math.Abs(100 * off), Format: "%.1f",
			Peers: fmt.Sprintf("%+.1f %% at %d", 100*off, at), Must: mustDeviate, Aim: aimDeviate,
		})
	}
	if len(r.Runs) == 0 {
		return list
	}
	restarts := 0
	for i := range r.Curves {
		c := &r.Curves[i]
		worst := 0.0
		var peers []string
		for k := range r.Runs {
			x := &r.Runs[k]
			if x.Profile != c.Profile {
				continue
			}
			found := x.found(c)
			if x.Learner != capacity.Default {
				peers = append(peers, fmt.Sprintf("`%s` %s", x.Learner, windowsText(found)))
				continue
			}
			restarts += x.Restarts
			if found == 0 {
				worst = math.Inf(1)
			}
			worst = max(worst, float64(found))
		}
		list = append(list, records.Line{
			Work: "`" + c.Profile + "`", Figure: "windows until `" + capacity.Default + "` stays within 7 %, the worst run", Value: worst, Format: "%.0f",
			Peers: strings.Join(peers, ", "), Must: mustFind, Aim: aimFind,
		})
	}
	return append(list, records.Line{
		Work: "all", Figure: "restarts of the function under `" + capacity.Default + "`, all runs", Value: float64(restarts), Format: "%.0f", Must: none, Aim: none,
		Peers: r.peerRestarts(),
	})
}

func (r *results) peerRestarts() string {
	var list []string
	for _, name := range r.Learners {
		if name == capacity.Default {
			continue
		}
		sum := 0
		for i := range r.Runs {
			if r.Runs[i].Learner == name {
				sum += r.Runs[i].Restarts
			}
		}
		list = append(list, fmt.Sprintf("`%s` %d", name, sum))
	}
	return strings.Join(list, ", ")
}

// deviation is the largest of simulated ÷ measured − 1, and its limit.
func (c *curve) deviation() (off float64, at int) {
	for i := range c.Points {
		p := &c.Points[i]
		if d := p.Simulated/p.rate() - 1; p.Kills == 0 && math.Abs(d) >= math.Abs(off) {
			off, at = d, p.Limit
		}
	}
	return off, at
}

func (c *curve) title() string {
	about := ""
	for _, p := range profiles {
		if p.name == c.Profile {
			about = p.about
		}
	}
	in := c.Inputs
	text := fmt.Sprintf("**%s**: %s. Measured beforehand: %.2f ms of cpu a request, %.2f ms more when idle, %.2f ms from the gate and back, %.0f MiB at rest", c.Profile, about,
		1e3*in.Demand, 1e3*in.Wake, 1e3*in.Floor, in.Rest/(1<<20))
	if in.Contention > 0 {
		text += fmt.Sprintf(", contention %.5f", in.Contention)
	}
	return text + "."
}

// table has a column for each limit.
func (c *curve) table() records.Table {
	t := records.Table{Heads: []string{"limit"}}
	rows := [][]string{{"measured, a second"}, {"simulated"}, {"deviation, %"}, {"cpu a request, ms"}, {"memory, % of the limit"}}
	for i := range c.Points {
		p := &c.Points[i]
		t.Heads = append(t.Heads, fmt.Sprint(p.Limit))
		t.Right = append(t.Right, i+1)
		cells := []string{
			fmt.Sprintf("%.1f", p.rate()), fmt.Sprintf("%.1f", p.Simulated), fmt.Sprintf("%+.1f", 100*(p.Simulated/p.rate()-1)),
			fmt.Sprintf("%.2f", 1e3*p.demand()), fmt.Sprintf("%.0f", 100*p.memory()),
		}
		if p.Kills > 0 {
			cells = []string{"killed", "–", "–", "–", "–"}
		}
		for k := range rows {
			rows[k] = append(rows[k], cells[k])
		}
	}
	t.Rows = rows
	return t
}

func windowsText(found int) string {
	if found == 0 {
		return "–"
	}
	return fmt.Sprint(found)
}

// learners has a row for each profile and learner.
func (r *results) learners() records.Table {
	t := records.Table{Heads: []string{"profile", "learner", "found", "limit in the end", "the guard in the end", "best, from which limit on", "lost, %", "restarts", "of them killed for memory"}, Right: []int{6, 7, 8}}
	for i := range r.Curves {
		c := &r.Curves[i]
		from, best := c.best(c.reach(initial), near)
		for _, name := range r.Learners {
			var found, answers, guards []string
			lost, restarts, kills, n := 0.0, 0, 0, 0.0
			for k := range r.Runs {
				x := &r.Runs[k]
				if x.Profile != c.Profile || x.Learner != name {
					continue
				}
				found = append(found, windowsText(x.found(c)))
				answers = append(answers, fmt.Sprint(x.Steps[len(x.Steps)-1].Answer))
				guards = append(guards, fmt.Sprint(x.Most))
				lost, n = lost+x.lost(c), n+1
				restarts, kills = restarts+x.Restarts, kills+x.Kills
			}
			t.Rows = append(t.Rows, []string{
				c.Profile, "`" + name + "`", strings.Join(found, " "), strings.Join(answers, " "), strings.Join(guards, " "), fmt.Sprintf("%.0f a second, %d", best, from),
				fmt.Sprintf("%.1f", 100*lost/n), fmt.Sprint(restarts), fmt.Sprint(kills),
			})
		}
		for _, n := range []int{10, 100} {
			found, lost := "–", fmt.Sprintf("%.1f", 100*max(0, 1-c.at(n)/best))
			if c.kills(n) {
				lost = "killed"
			} else if c.at(n) >= near*best {
				found = "1"
			}
			t.Rows = append(t.Rows, []string{c.Profile, fmt.Sprintf("fixed %d", n), found, fmt.Sprint(n), "", "", lost, "", ""})
		}
	}
	return t
}
