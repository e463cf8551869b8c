package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/gate"
)

// concurrencyTrial is a trial of `sigma mpa concurrency learn`.
type concurrencyTrial struct {
	Limit   int             `json:"limit"`
	Rate    float64         `json:"rate"`    // answers a second
	Inside  float64         `json:"inside"`  // in the mean
	Failed  float64         `json:"failed"`  // share of the requests that ended
	Seconds float64         `json:"seconds"` // that it took
	Window  capacity.Window `json:"window"`
}

// learning is a run of `sigma mpa concurrency learn`.
type learning struct {
	admin, url, learner string
	settings            capacity.Settings
	window, longest     time.Duration
	client              *http.Client
	trials              []concurrencyTrial
}

// agreed is how many trials in a row must propose the same limit.
const agreed = 4

func (a *app) mpaConcurrencyLearn() *cobra.Command {
	var format, out string
	var keep, quiet bool
	l := &learning{settings: capacity.DefaultSettings(), client: &http.Client{}}
	cmd := &cobra.Command{
		Use:   "learn --admin URL",
		Short: "Learn the concurrency limit of a pod behind a running gate",
		Long: `Learn changes the limit of a gate (sigma-gate, or a service that has package mpa/gate in
it), measures what the pod takes, and stops when a limit has been the best for ` + strconv.Itoa(agreed) + ` trials.
It then puts the former limit back, or leaves the learned one with --keep.

A pod that is not busy tells little: while it learns, requests must come, the clients' own
or, with --url, those that the command sends there, twice the limit at once.

The learners, ` + capacity.Default + ` by default:
` + learnersHelp(),
		Example: `  kubectl port-forward pod/web-0 9901 &
  sigma mpa concurrency learn --admin http://127.0.0.1:9901
  sigma mpa concurrency learn --admin http://127.0.0.1:9901 --url http://127.0.0.1:8080/ --keep`,
		Args: noArgs,
		RunE: a.do(func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(oneOf("format", format, "table", "json"), oneOf("learner", l.learner, capacity.Names()...), webURL("admin", l.admin), regular("out", out)); err != nil {
				return err
			}
			if l.url != "" {
				if err := webURL("url", l.url); err != nil {
					return err
				}
			}
			if l.window < 100*time.Millisecond || l.window > gate.Longest || l.longest < l.window {
				return usagef("--window %v --timeout %v: want 100ms to %v, and at least as long as a window", l.window, l.longest, gate.Longest)
			}
			former, err := l.limit(cmd.Context())
			if err != nil {
				return err
			}
			l.settings.Initial = min(l.settings.Max, max(l.settings.Min, cmp.Or(former, l.settings.Initial)))
			learner, err := capacity.New(l.learner, l.settings)
			if err != nil {
				return usagef("--min, --max: %w", err)
			}
			show := a.newProgress(0, "trial", quiet)
			defer show.end()
			err = l.run(cmd.Context(), learner, func() {
				t := &l.trials[len(l.trials)-1]
				show.set(len(l.trials), fmt.Sprintf("limit %d: %.4g a second", t.Limit, t.Rate))
			})
			show.end()
			c, ok := learner.Estimate()
			left := former
			if keep && ok && err == nil {
				left = c.Limit
			}
			// Also after an interrupt.
			back, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), 5*time.Second)
			defer cancel()
			if failed := l.setLimit(back, left); failed != nil {
				err = errors.Join(err, fmt.Errorf("the limit is not %d again: %w", left, failed))
			}
			if out != "" && len(l.trials) > 0 {
				err = errors.Join(err, durable.WriteFile(out, l.write))
			}
			switch {
			case cmd.Context().Err() != nil:
				return interrupted("the limit is %d again after %d trials", former, len(l.trials))
			case err != nil:
				return err
			case !ok:
				return fmt.Errorf("%s draws no limit from %d trials: was the pod busy? --url sends requests", l.learner, len(l.trials))
			}
			advice := concurrencyAdvice{Capacity: c, Windows: len(l.trials), Next: learner.Next()}
			if format == "json" {
				return a.json(struct {
					concurrencyAdvice
					Trials []concurrencyTrial `json:"trials"`
					Former int                `json:"former"` // limit; 0 = any number
					Left   int                `json:"left"`   // active limit
				}{advice, l.trials, former, left})
			}
			l.table(a.stdout)
			if err := advice.print(a.stdout); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "in force    %s\n", limitText(left))
			return err
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&l.admin, "admin", "http://127.0.0.1:9901", "the gate's admin port")
	flags.StringVar(&l.url, "url", "", "also send requests there, GET, twice the limit at once")
	flags.StringVar(&l.learner, "learner", capacity.Default, "learner: "+strings.Join(capacity.Names(), ", "))
	flags.IntVar(&l.settings.Min, "min", l.settings.Min, "smallest limit")
	flags.IntVar(&l.settings.Max, "max", l.settings.Max, "largest limit")
	flags.DurationVar(&l.window, "window", time.Second, "length of a window; a trial has two or more")
	flags.DurationVar(&l.longest, "timeout", 5*time.Minute, "how long it may take")
	flags.BoolVar(&keep, "keep", false, "leave the learned limit in force")
	flags.StringVar(&out, "out", "", "also write the trials as windows, for recommend --window")
	flags.StringVar(&format, "format", "table", "table or json")
	quietFlag(flags, &quiet)
	return cmd
}

func webURL(flag, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usagef("--%s %q: want http://HOST:PORT", flag, text)
	}
	return nil
}

func limitText(n int) string {
	if n == 0 {
		return "no limit"
	}
	return fmt.Sprintf("%d requests at once", n)
}

// run tries limits until the learner keeps one, or the time is over.
func (l *learning) run(ctx context.Context, learner capacity.Learner, tried func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	load := &closedLoop{client: l.client, url: l.url}
	defer load.stop()
	end := time.Now().Add(l.longest)
	for same := 0; same < agreed; {
		n := learner.Next()
		if err := l.setLimit(ctx, n); err != nil {
			return err
		}
		if l.url != "" {
			load.grow(ctx, 2*n)
		}
		w, err := l.trial(ctx, n)
		if err != nil {
			return err
		}
		learner.Tell(w)
		ended := w.Answered.Number + w.Failed.Number
		l.trials = append(l.trials, concurrencyTrial{
			Limit: n, Rate: w.Answered.Number / w.Length.Number, Inside: w.Inside.Number, Failed: w.Failed.Number / max(1, ended), Seconds: w.Length.Number, Window: w,
		})
		tried()
		if ended == 0 {
			return fmt.Errorf("no request ended within %v: want load on the pod while it learns, its own or by --url", l.window)
		}
		same++
		if c, ok := learner.Estimate(); !ok || learner.Next() != n || c.Limit != n {
			same = 0
		}
		if time.Now().After(end) {
			break
		}
	}
	return nil
}

// trial measures until the throughput is known well enough. The first window after a change
// is left out: requests of the limit before are inside.
func (l *learning) trial(ctx context.Context, limit int) (capacity.Window, error) {
	const patience = 20 // refused windows
	var t capacity.Trial
	for none, first := 0, true; ; first = false {
		w, err := l.measure(ctx)
		switch {
		case err != nil:
			return w, err
		case first:
			continue
		case w.Limit != capacity.Some(float64(limit)):
			return w, fmt.Errorf("%s: the limit is %v, %d was set: who else sets it?", l.admin, w.Limit.Number, limit)
		}
		whole, done, err := t.Add(w)
		if err != nil {
			if none++; none == patience {
				return w, fmt.Errorf("%s: no window: %w", l.admin, err)
			}
			continue
		}
		if done {
			return whole, nil
		}
	}
}

// call answers a call of the admin port.
func (l *learning) call(ctx context.Context, method, path, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(l.admin, "/")+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	response, err := l.client.Do(request)
	if err != nil {
		return "", fmt.Errorf("--admin %s: %w", l.admin, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	if err != nil {
		err = fmt.Errorf("--admin %s%s: %w", l.admin, path, err)
	}
	return string(text), err
}

func (l *learning) limit(ctx context.Context) (int, error) {
	text, err := l.call(ctx, http.MethodGet, "/limit", "")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err == nil {
		err = gate.CheckLimit(n)
	}
	if err != nil {
		return 0, fmt.Errorf("--admin %s: this is no gate: %w", l.admin, err)
	}
	return n, nil
}

func (l *learning) setLimit(ctx context.Context, n int) error {
	_, err := l.call(ctx, http.MethodPut, "/limit", strconv.Itoa(n))
	return err
}

func (l *learning) measure(ctx context.Context) (w capacity.Window, err error) {
	text, err := l.call(ctx, http.MethodGet, fmt.Sprintf("/window?seconds=%v", l.window.Seconds()), "")
	if err == nil {
		err = json.Unmarshal([]byte(text), &w)
	}
	return w, err
}

func (l *learning) write(to io.Writer) error {
	e := json.NewEncoder(to)
	for i := range l.trials {
		if err := e.Encode(&l.trials[i].Window); err != nil {
			return err
		}
	}
	return nil
}

func (l *learning) table(to io.Writer) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%5s  %8s  %7s  %7s  %6s  %8s\n", "limit", "a second", "inside", "cores", "failed", "memory %")
	for i := range l.trials {
		t := &l.trials[i]
		cores, memory := "-", "-"
		if w := &t.Window; w.CPU.Known {
			cores = fmt.Sprintf("%.3g", w.CPU.Number/w.Length.Number)
		}
		if w := &t.Window; w.Memory.Known && w.MemoryLimit.Number > 0 {
			memory = fmt.Sprintf("%.1f", 100*w.Memory.Number/w.MemoryLimit.Number)
		}
		fmt.Fprintf(&b, "%5d  %8.4g  %7.3g  %7s  %5.1f%%  %8s\n", t.Limit, t.Rate, t.Inside, cores, 100*t.Failed, memory)
	}
	b.WriteByte('\n')
	_, _ = to.Write(b.Bytes())
}

// closedLoop sends requests one after the other, so many at once.
type closedLoop struct {
	client *http.Client
	url    string
	cancel []context.CancelFunc
	ended  sync.WaitGroup
}

// grow begins and ends senders until there are n.
func (c *closedLoop) grow(ctx context.Context, n int) {
	for len(c.cancel) < n {
		inner, cancel := context.WithCancel(ctx)
		c.cancel = append(c.cancel, cancel)
		c.ended.Go(func() { c.send(inner) })
	}
	for ; len(c.cancel) > n; c.cancel = c.cancel[:len(c.cancel)-1] {
		c.cancel[len(c.cancel)-1]()
	}
}

func (c *closedLoop) send(ctx context.Context) {
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
		if err != nil {
			return
		}
		response, err := c.client.Do(request)
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		if err != nil || response.StatusCode >= http.StatusInternalServerError { // not a storm
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}

func (c *closedLoop) stop() {
	c.grow(context.Background(), 0)
	c.ended.Wait()
}
