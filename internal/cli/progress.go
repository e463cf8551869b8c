package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/sigma-scheduler/sigma/internal/plural"
	"github.com/sigma-scheduler/sigma/internal/shellword"
)

// A progress shows how far a long command is: one line that it overwrites on a
// terminal, a line a minute in a pipe. A quick command shows nothing. The progress has
// its own ticker, so that it also shows a step that takes long.
type progress struct {
	mu    sync.Mutex
	out   io.Writer // nil = quiet
	every time.Duration
	width int // of the terminal, 0 = a pipe
	began time.Time
	stop  chan struct{} // nil = not begun, or ended
	shown bool          // a line is on the terminal

	done, total int // total 0 = not known
	unit        string
	note        string
}

const (
	terminalEvery = time.Second / 5
	pipeEvery     = time.Minute
	defaultWidth  = 80
)

// newProgress prepares the progress of a number of units, "trace" or "replay".
// end must be called.
func (a *app) newProgress(total int, unit string, quiet bool) *progress {
	out := uncleaned(a.stderr)
	if quiet {
		out = nil
	}
	return startProgress(out, terminalWidth(a.stderr), total, unit)
}

// uncleaned is the writer behind one that cleans: control characters are the caller's own.
func uncleaned(out io.Writer) io.Writer {
	if w, ok := out.(shellword.Writer); ok {
		return w.Out
	}
	return out
}

// terminalWidth is the width of a terminal, 0 when out is not one.
func terminalWidth(out io.Writer) int {
	file, ok := uncleaned(out).(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width < 20 {
		return defaultWidth
	}
	return width
}

func startProgress(out io.Writer, width, total int, unit string) *progress {
	p := &progress{out: out, width: width, every: pipeEvery, began: time.Now(), total: total, unit: unit}
	if width > 0 {
		p.every = terminalEvery
	}
	if out == nil {
		return p
	}
	p.stop = make(chan struct{})
	go p.run(p.stop)
	return p
}

func (p *progress) run(stop chan struct{}) {
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			p.show()
		}
	}
}

// set sets the number of units done; note is shown next to it.
func (p *progress) set(done int, note string) {
	p.mu.Lock()
	p.done, p.note = done, note
	p.mu.Unlock()
}

// expect sets the number of all units, once it is known.
func (p *progress) expect(total int) {
	p.mu.Lock()
	p.total = total
	p.mu.Unlock()
}

// add counts a unit.
func (p *progress) add() {
	p.mu.Lock()
	p.done++
	p.mu.Unlock()
}

// count is the number of units that are done.
func (p *progress) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop == nil {
		return
	}
	text := shellword.Clean(p.text(time.Since(p.began)))
	if p.width == 0 {
		fmt.Fprintln(p.out, text)
		return
	}
	if utf8.RuneCountInString(text) >= p.width { // a line that wraps cannot be overwritten
		text = string([]rune(text)[:p.width-1])
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", text)
	p.shown = true
}

// text is the line: the work done, its rate, the note, and the remaining time.
func (p *progress) text(spent time.Duration) string {
	done := p.done
	if p.total > 0 {
		done = min(done, p.total) // an item that is tried again counts again
	}
	rate := float64(done) / max(spent.Seconds(), 1e-3)
	note := p.note
	if note != "" {
		note = ", " + note
	}
	switch {
	case p.total <= 0:
		return fmt.Sprintf("%s so far%s, %s", plural.Of(done, p.unit), note, spent.Round(time.Second))
	case done == 0:
		return fmt.Sprintf("0 of %s%s, %s so far", plural.Of(p.total, p.unit), note, spent.Round(time.Second))
	}
	left := time.Duration(float64(p.total-done) / rate * float64(time.Second))
	return fmt.Sprintf("%d of %s (%d %%), %s%s, %s to go", done, plural.Of(p.total, p.unit),
		100*done/p.total, rateText(rate), note, left.Round(time.Second))
}

// rateText is per second where there is at least one, else per minute or hour.
func rateText(rate float64) string {
	switch {
	case rate >= 100:
		return fmt.Sprintf("%.0f a second", rate)
	case rate >= 1:
		return fmt.Sprintf("%.3g a second", rate)
	case rate >= 1./60:
		return fmt.Sprintf("%.3g a minute", 60*rate)
	}
	return fmt.Sprintf("%.3g an hour", 3600*rate)
}

// print writes another line above the line of the progress.
func (p *progress) print(w io.Writer, line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintln(w, line)
}

// clear removes the line from the terminal; the caller holds the lock.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

// end stops the ticker and clears the line. It may be called again.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		close(p.stop)
		p.stop = nil
	}
	p.clear()
}

// quietFlag adds --quiet.
func quietFlag(flags *pflag.FlagSet, quiet *bool) {
	flags.BoolVar(quiet, "quiet", false, "no progress")
}

// An interruptedError describes the state after an interrupt.
type interruptedError struct{ text string }

func (e *interruptedError) Error() string { return "interrupted: " + e.text }
func (e *interruptedError) Unwrap() error { return context.Canceled }

// Interrupted is the error of a command that an interrupt ended; the text describes the state.
func Interrupted(format string, args ...any) error { return interrupted(format, args...) }

func interrupted(format string, args ...any) error {
	return &interruptedError{fmt.Sprintf(format, args...)}
}

// until runs f. After an interrupt it returns without waiting for f, since the process
// ends: f must not leave anything half done.
func until(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
