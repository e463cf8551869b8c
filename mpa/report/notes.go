package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/sheet"
	"github.com/sigma-scheduler/sigma/mpa/agents"
)

// notes returns remarks that qualify the table.
func (c *Comparison) notes() []string {
	var notes []string
	for i := range c.Agents {
		if like := c.like(&c.Agents[i]); len(like) > 1 && like[0] == &c.Agents[i] {
			notes = append(notes, namesOf(like)+" gave the same results in every run.")
		}
	}
	if limit := c.agent(Limit); limit != nil {
		notes = append(notes, c.oracleNote(limit)...)
	}
	return notes
}

// oracleNote explains the oracle's minutes over the promise.
func (c *Comparison) oracleNote(limit *Agent) []string {
	minutes := limit.Mean["violating_minutes"].Mean
	switch {
	case !c.kept(limit):
		return []string{"The oracle’s plan, the best under other seeds, breaks the promise here, so its cost is no limit."}
	case !(minutes > 0):
		return nil
	}
	return []string{fmt.Sprintf("The oracle is over the promise in %s of %s minutes, and keeps it: the promise counts the requests of a whole run, of which %g %% may be late or lost. "+
		"It seeks the least cost, so it uses what is allowed: %s.",
		sheet.Short(minutes), sheet.Short(60*limit.Runs[0].Hours), c.allowed(), percent(limit.violating()))}
}

// allowed is the share of requests that may be late or lost, in per cent.
func (c *Comparison) allowed() float64 { return math.Round(1e6*(100-c.App.Percentile)) / 1e6 }

// lostText describes in how many runs a percentile is lost.
func (a *Agent) lostText(m *measure) string {
	n := 0
	for i := range a.Runs {
		if math.IsInf(m.value(&a.Runs[i].Result), 0) {
			n++
		}
	}
	if n == len(a.Runs) {
		return "lost"
	}
	return fmt.Sprintf("lost in %d of %d", n, len(a.Runs))
}

// over returns the reason that a figure of an agent is over the promise; "" = it is not, or has
// no limit.
func (c *Comparison) over(a *Agent, m *measure) string {
	switch m.name {
	case "violating_percent":
		if !c.kept(a) {
			return fmt.Sprintf("over the promise: at most %g %% may be late or lost", c.allowed())
		}
	case fmt.Sprintf("p%g_all_ms", c.App.Percentile):
		// With several seeds the mean of percentiles may be over it where all requests together are not.
		if v := a.Mean[m.name].Mean; math.IsInf(v, 1) || v > 1000*c.App.Latency && !c.kept(a) {
			return fmt.Sprintf("over the promise: %g ms", 1000*c.App.Latency)
		}
	}
	return ""
}

// object returns a MultidimPodAutoscaler for the cheapest agent that keeps the promise and runs in a
// cluster, and that agent; "" = no such agent.
func (c *Comparison) object() (text string, agent *Agent) {
	agent = c.cheapest(func(name string) bool { return recommender(name) != "" })
	t := &c.App.Target
	if agent == nil || len(t.Containers) == 0 || t.SLO.Percentile > 99.99 {
		return "", nil
	}
	name, bounds := dnsName(c.App.Name), &t.Containers[0]
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: autoscaling.sigma-scheduler.io/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: %[1]s}
spec:
  scaleTargetRef: {kind: Deployment, name: %[1]s} # the workload
  mode: "Off" # recommends and changes nothing; InPlaceOrRecreate acts
  slo:
    latency: {percentile: %[2]g, target: %[3]gms}
  metrics:
    prometheus:
      server: default # in the ConfigMap sigma-mpa-prometheus
      queries: # with the names of its metrics
        rate: sum(rate(http_requests_total{namespace="$namespace",pod=~"$pods"}[1m]))
        latency: histogram_quantile(%[4]g, sum by (le) (rate(http_request_duration_seconds_bucket{namespace="$namespace",pod=~"$pods"}[1m])))
  constraints:
    replicas: {min: %[5]d, max: %[6]d}
    containers:
    - name: %[1]s # the container
`, name, t.SLO.Percentile, 1000*t.SLO.Latency, math.Round(1e6*t.SLO.Percentile/100)/1e6, t.Replicas.Min, t.Replicas.Max)
	amounts := func(field string, cpu, memory int64) {
		var list []string
		if cpu > 0 {
			list = append(list, fmt.Sprintf("cpu: %dm", cpu))
		}
		if memory > 0 {
			list = append(list, fmt.Sprintf("memory: %q", fmt.Sprint(memory)))
			if memory%(1<<20) == 0 {
				list[len(list)-1] = fmt.Sprintf("memory: %dMi", memory>>20)
			}
		}
		if len(list) > 0 {
			fmt.Fprintf(&b, "      %s: {%s}\n", field, strings.Join(list, ", "))
		}
	}
	amounts("minAllowed", bounds.Min.CPU, bounds.Min.Memory)
	amounts("maxAllowed", bounds.Max.CPU, bounds.Max.Memory)
	fmt.Fprintf(&b, "  recommender: {%s\n", recommender(agent.Name))
	return b.String(), agent
}

// recommender is an agent's part of an object, after its brace; "" = no cluster has the agent.
func recommender(name string) string {
	if slices.Contains(agents.Names(), name) {
		return "algorithm: " + name + "}"
	}
	name, _, _ = strings.Cut(name, "@")
	switch file := strings.TrimSuffix(strings.TrimSuffix(name, ".yaml"), ".yml"); {
	case name == "learned":
		return "algorithm: learned, policy: general} # begins in the shadow of the rules"
	case file != name:
		return "algorithm: learned, policy: " + dnsName(file[strings.LastIndex(file, "/")+1:]) + "} # the ScalingPolicy's name in the file; begins in the shadow of the rules"
	}
	return ""
}

// dnsName makes a name of a text as objects have it.
func dnsName(text string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return cmp.Or(strings.Trim(name[:min(63, len(name))], "-"), "app")
}
