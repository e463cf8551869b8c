package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/gate"
	"github.com/sigma-scheduler/sigma/mpa/knative"
)

func (a *app) mpaConcurrency() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "concurrency",
		Short: "Learn how many requests a pod can take at once, and at what rate",
	}
	cmd.AddCommand(a.mpaConcurrencyRecommend(), a.mpaConcurrencyLearn(), a.mpaConcurrencyCompare())
	a.group(cmd)
	return cmd
}

// mpaConcurrencyCompare refers to the laboratory's command that replaces it.
func (a *app) mpaConcurrencyCompare() *cobra.Command {
	return &cobra.Command{
		Use:                "compare",
		Hidden:             true,
		DisableFlagParsing: true, // those of the laboratory's command
		RunE: func(_ *cobra.Command, args []string) error {
			return usagef("the comparison of learners is a command of the laboratory: make lab && bin/%s", strings.Join(append([]string{"sigma-lab contest"}, args...), " "))
		},
	}
}

func learnersHelp() string {
	var b strings.Builder
	for _, name := range capacity.Names() {
		fmt.Fprintf(&b, "  %-10s %s\n", name, capacity.About(name))
	}
	return b.String()
}

// concurrencyAdvice is the output of `sigma mpa concurrency recommend`.
type concurrencyAdvice struct {
	capacity.Capacity
	Windows int `json:"windows"`
	Next    int `json:"next"` // the limit to try next
	// Sizes are the capacities of pods with other cores, and Within their capacities within the SLO, the
	// cheapest a request first.
	Sizes  []capacity.Capacity `json:"sizes,omitempty"`
	Within []withinSLO         `json:"within,omitempty"`
}

type withinSLO struct {
	Cores  float64 `json:"cores"`
	Limit  int     `json:"limit"`
	Rate   float64 `json:"rate"` // requests a second; 0 = the size cannot keep the promise
	Inside float64 `json:"inside"`
}

func (a *app) mpaConcurrencyRecommend() *cobra.Command {
	var file, learner, format string
	var cores []float64
	var latency time.Duration
	var percentile float64
	s := capacity.DefaultSettings()
	cmd := &cobra.Command{
		Use:   "recommend --window FILE",
		Short: "Recommend a concurrency limit from measured windows",
		Long: `Recommend reads windows of one pod and prints the limit that a learner draws from
them, the rate and the demand behind it, and what to try next. Nothing is changed.

A window is a JSON object a line: time (its end), length in seconds, limit, inside (mean
number of requests in the pod), answered, failed, cpu in core-seconds, quota in cores (0 =
none), memory (most in the window) and memoryLimit in bytes. What is left out is missing,
not zero; length, limit and answered are needed.

The learners, ` + capacity.Default + ` by default:
` + learnersHelp(),
		Example: `  sigma mpa concurrency recommend --window windows.jsonl
  sigma mpa concurrency recommend --window windows.jsonl --cores 1 --format json
  sigma mpa concurrency recommend --window windows.jsonl --latency 200ms --format knative > service.yaml
  kubectl patch ksvc web --type merge --patch-file service.yaml`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(required(cmd, "window"), oneOf("format", format, "table", "json", "knative"), oneOf("learner", learner, capacity.Names()...)); err != nil {
				return err
			}
			if format == "knative" {
				if cmd.Flags().Changed("cores") {
					return usagef("--format knative is about the size of the windows: leave out --cores")
				}
				if latency == 0 {
					return usagef("--format knative needs --latency: replicas go by the rate that keeps it")
				}
				s.Max = min(s.Max, knative.MaxLimit)
			}
			for _, c := range cores {
				if !(c > 0 && c <= 1000) {
					return usagef("--cores %v: want more than 0, and at most 1000", c)
				}
			}
			if err := onlyWith(cmd, "percentile", "latency"); err != nil {
				return err
			}
			if cmd.Flags().Changed("latency") && latency <= 0 || !(percentile > 0 && percentile < 100) {
				return usagef("--latency %v --percentile %v: want more than 0, and less than 100", latency, percentile)
			}
			windows, err := readWindows(file)
			if err != nil {
				return err
			}
			s.Initial = min(s.Max, max(s.Min, int(windows[0].Limit.Number)))
			l, err := capacity.New(learner, s)
			if err != nil {
				return usagef("--min, --max: %w", err)
			}
			for _, w := range windows {
				l.Tell(w)
			}
			c, ok := l.Estimate()
			if !ok {
				return fmt.Errorf("%s: %s draws no limit from it: the cpu and its quota are needed", file, learner)
			}
			advice := concurrencyAdvice{Capacity: c, Windows: len(windows), Next: l.Next()}
			if err := advice.sizes(cores, s.Max); err != nil {
				return err
			}
			if latency > 0 {
				slo := capacity.SLO{Percentile: percentile, Latency: latency.Seconds()}
				if len(cores) == 0 && !(c.Cores > 0) {
					return fmt.Errorf("%s: the rate within --latency is not known: that takes the cpu of the windows, a quota above 0, and a learner with the law", file)
				}
				if err := advice.within(slo, cores, capacity.Size{Memory: windows[len(windows)-1].MemoryLimit.Number, Min: s.Min, Max: s.Max}); err != nil {
					return err
				}
			}
			switch format {
			case "json":
				return a.json(advice)
			case "knative":
				return advice.knative(a.stdout)
			}
			return advice.print(a.stdout)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&file, "window", "", "file of windows, one JSON object a line")
	flags.StringVar(&learner, "learner", capacity.Default, "learner: "+strings.Join(capacity.Names(), ", "))
	flags.IntVar(&s.Min, "min", s.Min, "smallest limit")
	flags.IntVar(&s.Max, "max", s.Max, "largest limit")
	flags.Float64SliceVar(&cores, "cores", nil, "also say what pods with these cores would take, with as much memory")
	flags.DurationVar(&latency, "latency", 0, "also say what rate keeps this latency, in open loop, for these cores or those of the windows")
	flags.Float64Var(&percentile, "percentile", 95, "percentile of requests that --latency is for")
	flags.StringVar(&format, "format", "table", "table, json, or knative: a patch of a Knative Service")
	return cmd
}

// knative prints the settings of a Knative Service: the hard limit, and requests a second in a pod to scale by.
func (c *concurrencyAdvice) knative(w io.Writer) error {
	within := c.Within[0]
	setting := knative.SettingOf(within.Limit, within.Rate)
	if setting.Check() != nil {
		return fmt.Errorf("no rate keeps the promise with %.4g cores: try --cores with larger sizes", within.Cores)
	}
	return setting.Patch(w, c.Reason)
}

func (c *concurrencyAdvice) sizes(cores []float64, most int) error {
	for _, size := range cores {
		other, err := c.Size(size, most)
		if err != nil {
			return err
		}
		c.Sizes = append(c.Sizes, other)
	}
	return nil
}

// within costs a size as much as it has cores; the rest of each is that of like.
func (c *concurrencyAdvice) within(slo capacity.SLO, cores []float64, like capacity.Size) error {
	if len(cores) == 0 {
		cores = []float64{c.Cores}
	}
	var sizes []capacity.Size
	for _, size := range cores {
		like.Cores, like.Cost = size, size
		sizes = append(sizes, like)
	}
	list, err := capacity.Best(&c.Capacity, slo, sizes)
	if err != nil {
		return err
	}
	for _, s := range list {
		c.Within = append(c.Within, withinSLO{s.Size.Cores, s.Limit, s.Rate, s.Inside})
	}
	return nil
}

// readWindows reads a window a line; errors name file and line.
func readWindows(file string) ([]capacity.Window, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var windows []capacity.Window
	var before time.Time
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	n := 1
	for ; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var w capacity.Window
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&w); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		err := w.Check()
		switch {
		case dec.More():
			err = errors.New("there is more than one window on the line")
		case err != nil:
		case !w.Limit.Known:
			err = errors.New("limit: it is missing")
		case w.Limit.Number < 1 || w.Limit.Number > gate.MostLimit:
			err = fmt.Errorf("limit: %v, want 1 to %d", w.Limit.Number, gate.MostLimit)
		case !w.Answered.Known:
			err = errors.New("answered: it is missing")
		case w.Time.IsZero():
			err = errors.New("time: it is missing")
		case w.Time.Before(before):
			err = fmt.Errorf("time: %s is before the line above", w.Time.Format(time.RFC3339))
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		before = w.Time
		windows = append(windows, w)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", file, n, err)
	}
	if len(windows) == 0 {
		return nil, fmt.Errorf("%s: there are no windows", file)
	}
	return windows, nil
}

func (c *concurrencyAdvice) print(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "limit       %d requests at once\n", c.Limit)
	between := func(i capacity.Interval, scale float64, unit string) string {
		return fmt.Sprintf("%.4g %s (%.4g to %.4g)", i.Value*scale, unit, i.Low*scale, i.High*scale)
	}
	fmt.Fprintf(&b, "rate        %s\n", between(c.Rate, 1, "a second"))
	if c.Cores > 0 {
		fmt.Fprintf(&b, "demand      %s\nwait        %s\n", between(c.Demand, 1000, "ms of cpu"), between(c.Wait, 1000, "ms"))
		if c.Contention.Value > 0 {
			fmt.Fprintf(&b, "contention  %s\n", between(c.Contention, 100, "% more cpu for each other request"))
		}
	}
	if c.MemoryPerRequest.Value > 0 {
		fmt.Fprintf(&b, "memory      at most %.4g MiB a request\n", c.MemoryPerRequest.High/(1<<20))
	}
	fmt.Fprintf(&b, "why         %s\n", c.Reason)
	if c.Next != c.Limit {
		fmt.Fprintf(&b, "next        try %d\n", c.Next)
	}
	for i := range c.Sizes {
		s := &c.Sizes[i]
		fmt.Fprintf(&b, "%-11s %d at once, %s\n", fmt.Sprintf("%.4g cores", s.Cores), s.Limit, between(s.Rate, 1, "a second"))
	}
	for _, s := range c.Within {
		fmt.Fprintf(&b, "within slo  %.4g cores: %.4g a second, %.3g inside", s.Cores, s.Rate, s.Inside)
		if s.Rate > 0 {
			fmt.Fprintf(&b, ", %.4g core-seconds a request", s.Cores/s.Rate)
		}
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}
