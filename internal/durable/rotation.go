package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Rotation bounds a log. The zero value is one file without a limit.
type Rotation struct {
	Bytes int64 // a file of at least so many is kept aside, and another one begins; 0 = never
	Files int   // kept aside; 0 = all
}

// A RotatingLog is an [AppendLog] whose file may be exchanged below it: by its
// Rotation, or by other programs. Each of its files begins with records that
// the caller gives to Begin.
type RotatingLog[T any] struct {
	*AppendLog[T]
	rotation Rotation
	begun    int64     // size of the records of Begin
	looked   time.Time // for another file at the path
}

// Why the lines of a log cannot go on where they are, and Begin is needed.
var (
	ErrMoved = errors.New("the file was renamed or removed")
	ErrCut   = errors.New("the file was cut")
)

// lookEvery is how often a writer looks whether its file is still at its path.
const lookEvery = time.Second

// OpenRotatingLog is [OpenLog] for a log that rotates. It does not read the records
// that are there.
func OpenRotatingLog[T any](path string, format Format[T], r Rotation) (*RotatingLog[T], error) {
	log, err := OpenLog(path, format, nil)
	if err != nil {
		return nil, err
	}
	l := &RotatingLog[T]{AppendLog: log, rotation: r}
	if log.path, err = filepath.EvalSymlinks(path); err == nil {
		err = l.forgetLink()
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return l, nil
}

// forgetLink undoes the first step of exchange after a kill between its two steps.
func (l *RotatingLog[T]) forgetLink() error {
	old, err := Aside(l.path)
	if err != nil || len(old) == 0 {
		return err
	}
	last := old[len(old)-1]
	if same, err := l.isAt(last); err != nil || !same {
		return err
	}
	Step("remove", last)
	return os.Remove(last)
}

// Check reports changes of the file by others: [ErrCut] at once, [ErrMoved] after a
// second at most. A moved file still takes records.
func (l *RotatingLog[T]) Check(now time.Time) error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() && info.Size() < l.size {
		return ErrCut
	}
	if since := now.Sub(l.looked); since >= 0 && since < lookEvery {
		return nil
	}
	l.looked = now
	if there, err := l.isAt(l.path); err != nil {
		return err
	} else if !there {
		return ErrMoved
	}
	return nil
}

// isAt reports whether name is the name of the log's file.
func (l *RotatingLog[T]) isAt(name string) (bool, error) {
	mine, err := l.file.Stat()
	if err != nil {
		return false, err
	}
	return isNamed(mine, name)
}

// Full reports whether the log should begin in another file: this one has reached its
// limit, and holds more than a beginning alone.
func (l *RotatingLog[T]) Full() bool {
	return l.rotation.Bytes > 0 && l.size >= max(l.rotation.Bytes, 2*l.begun)
}

// Begin appends the records with which the log can be read from here, all of them or
// none. It appends them to a new file if the present one is full, was cut or was
// moved. A full or cut file is kept aside. With an error the log stays as it was.
func (l *RotatingLog[T]) Begin(now time.Time, records ...T) error {
	if there, err := l.isAt(l.path); err != nil || !there {
		return l.reopen(records)
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	before := info.Size()
	if before > 0 && before < l.size || l.Full() {
		return l.rotate(now, info.Mode().Perm(), records)
	}
	if err := l.Append(records...); err != nil {
		return err
	}
	l.begun = l.size - before
	return nil
}

// reopen begins in the file that is at the path now, or in a new one.
func (l *RotatingLog[T]) reopen(records []T) error {
	next, err := OpenLog(l.path, l.format, nil)
	if err != nil {
		return err
	}
	before := next.size
	if err := next.Append(records...); err != nil {
		return errors.Join(err, next.Close())
	}
	l.goOn(next, before)
	return nil
}

// goOn continues with another file.
func (l *RotatingLog[T]) goOn(next *AppendLog[T], before int64) {
	_ = l.Close() // nobody was promised that its lines last
	l.AppendLog, l.begun = next, next.size-before
}

// rotate keeps the file aside and puts a new one in its place. At each moment the file
// at the path is whole, and locked.
func (l *RotatingLog[T]) rotate(now time.Time, mode fs.FileMode, records []T) error {
	aside, err := l.asideAt(now)
	if err != nil {
		return err
	}
	fresh := hidden(l.path, ".new")
	Step("remove", fresh)
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	format := l.format
	format.Mode = mode
	next, err := OpenLog(fresh, format, nil)
	if err != nil {
		return err
	}
	if err = next.Append(records...); err == nil {
		err = exchange(fresh, l.path, aside)
	}
	if err != nil {
		return errors.Join(err, next.Close(), os.Remove(fresh))
	}
	next.path = l.path
	l.goOn(next, 0)
	return nil
}

// exchange gives the file at path the name aside, and its own to the one at fresh.
func exchange(fresh, path, aside string) error {
	Step("link", aside)
	undo := os.Remove
	if err := os.Link(path, aside); err != nil {
		// Where files have one name only, there is a moment without the log.
		undo = func(name string) error { return os.Rename(name, path) }
		if err := os.Rename(path, aside); err != nil {
			return err
		}
	}
	Step("rename to", path)
	if err := os.Rename(fresh, path); err != nil {
		return errors.Join(err, undo(aside))
	}
	return nil
}

// asideFormat is the suffix of the name of a file kept aside: such names sort by
// time.
const asideFormat = ".20060102T150405.000Z"

// asideAt is the name of a file that is kept aside now: it sorts after the existing
// ones.
func (l *RotatingLog[T]) asideAt(now time.Time) (string, error) {
	old, err := Aside(l.path)
	if err != nil {
		return "", err
	}
	for ; ; now = now.Add(time.Millisecond) {
		name := l.path + now.UTC().Format(asideFormat)
		if len(old) == 0 || name > old[len(old)-1] {
			return name, nil
		}
		// Clocks are set back, and a millisecond may see two rotations.
		if last, err := time.Parse(asideFormat, old[len(old)-1][len(l.path):]); err == nil {
			now = last
		}
	}
}

// Aside lists the files of a log that were kept aside, the oldest first.
func Aside(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), filepath.Base(path))
		if _, err := time.Parse(asideFormat, rest); ours && err == nil && e.Type().IsRegular() {
			list = append(list, path+rest)
		}
	}
	slices.Sort(list)
	return list, nil
}

// Prune removes the oldest of the files kept aside, if there are too many.
func (l *RotatingLog[T]) Prune() error {
	old, err := Aside(l.path)
	if err != nil || l.rotation.Files == 0 {
		return err
	}
	for _, path := range old[:max(0, len(old)-l.rotation.Files)] {
		Step("remove", path)
		if e := os.Remove(path); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
