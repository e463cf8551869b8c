package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
)

// Options of a journal's files. The zero value never rotates.
type Options struct {
	// MaxBytes is the size at which the next file begins, and Keep how many full ones
	// stay: NAME.1 is the newest of them. A journal stays below (Keep + 1) · MaxBytes plus
	// a record for each file.
	MaxBytes int64
	Keep     int
	// Weights of learned agents, for a [Session].
	Weights agents.Weights
}

// A Writer appends records to a file. It serves one goroutine.
//
// A record is one write to the system: a kill cuts off the last line at most. Starts,
// outcomes and decisions with an action are synced, so that no action is lost when a machine
// loses power; decisions to hold are not.
type Writer struct {
	path    string
	options Options
	log     *durable.AppendLog[*Record] // nil = no file
	began   bool                        // there are records before the next one
	begin   func() (*Start, error)      // of the next file
}

// Open opens a file to append to, and makes it and its folder if needed. It removes a last
// line that a kill has cut off. A file has one writer at a time: a second Open, in this
// process or elsewhere, fails. With an empty path nothing is written.
func Open(path string, o Options) (*Writer, error) {
	if o.MaxBytes < 0 || o.Keep < 0 {
		return nil, fmt.Errorf("journal: maxBytes %d, keep %d: want at least 0", o.MaxBytes, o.Keep)
	}
	w := &Writer{path: path, options: o}
	if path == "" {
		return w, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := w.open(); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Writer) open() error {
	format := durable.Format[*Record]{
		Encode: encode,
		Mine:   func([]byte) bool { return true }, // Begin reads it, and renames a file that is no journal
	}
	log, err := durable.OpenLog(w.path, format, nil)
	if err != nil {
		return err
	}
	w.log, w.began = log, log.Size() > 0
	return nil
}

func encode(b *bytes.Buffer, r *Record) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("%s: %w", r.Kind, err)
	}
	return nil
}

// Start writes a start; the format is set.
func (w *Writer) Start(s Start) error {
	s.Format = Format
	return w.write(&Record{Kind: KindStart, Start: &s}, true)
}

// Decision writes an observation and its decision; id as in [Decided].
func (w *Writer) Decision(o *mpa.Observation, d *mpa.Decision, id int64) error {
	return w.write(&Record{Kind: KindDecision, Decision: &Decided{id, *o, *d}}, d.Action != nil)
}

// Outcome writes the result of an action.
func (w *Writer) Outcome(o Outcome) error {
	return w.write(&Record{Kind: KindOutcome, Outcome: &o}, true)
}

// write appends a record if there is a file.
func (w *Writer) write(r *Record, sync bool) error {
	if w.log == nil {
		w.began = true
		return nil
	}
	appendTo := w.log.Append
	if sync {
		appendTo = w.log.AppendSync
	}
	if err := appendTo(r); err != nil {
		return err
	}
	w.began = true
	if w.begin == nil || w.options.MaxBytes == 0 || w.log.Size() < w.options.MaxBytes || r.Kind == KindStart {
		return nil
	}
	return w.rotate()
}

// rotate begins the next file.
func (w *Writer) rotate() error {
	s, err := w.begin()
	if err != nil {
		return err
	}
	if _, err := os.Stat(w.path); err == nil {
		if err := w.age(); err != nil {
			return err
		}
	}
	full := w.log
	if err := w.open(); err != nil {
		return err // the full file, now renamed, is still written to
	}
	return errors.Join(full.Close(), w.Start(*s))
}

// age renames the present file to NAME.1, and the older ones accordingly.
func (w *Writer) age() error {
	if w.options.Keep == 0 {
		return os.Remove(w.path)
	}
	for i := w.options.Keep - 1; i >= 1; i-- {
		if err := os.Rename(old(w.path, i), old(w.path, i+1)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(w.path, old(w.path, 1)); err != nil {
		return err
	}
	return w.shrink()
}

// shrink removes the oldest files where the newer ones have all the bytes that the options allow now.
func (w *Writer) shrink() error {
	left := int64(w.options.Keep) * w.options.MaxBytes
	for i := 1; ; i++ {
		info, err := os.Stat(old(w.path, i))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if left > 0 || i == 1 {
			left -= info.Size()
			continue
		}
		if err := os.Remove(old(w.path, i)); err != nil {
			return err
		}
	}
}

func old(path string, i int) string { return fmt.Sprintf("%s.%d", path, i) }

// Files returns the existing files of the journal at path, oldest first.
func Files(path string) []string {
	var list []string
	for i := 1; ; i++ {
		if _, err := os.Stat(old(path, i)); err != nil {
			break
		}
		list = append([]string{old(path, i)}, list...)
	}
	if _, err := os.Stat(path); err == nil {
		list = append(list, path)
	}
	return list
}

// Close closes the file.
func (w *Writer) Close() error {
	if w.log == nil {
		return nil
	}
	return w.log.Close()
}
