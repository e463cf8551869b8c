package swarm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A Checkpoint is an append-only file of evaluations. Nothing of the optimiser
// is stored: a resumed run is the same seeded run from the beginning, whose
// evaluations are answered from the file until it is used up. So a kill at any
// byte loses no more than the evaluations that were under way.
//
// The first line holds the caller's settings, each further line one evaluation:
//
//	{"checkpoint":"sigma-swarm","version":1,"settings":{…}}
//	generation index position value [objectives…]
//
// separated by single blanks. position is the 64-bit FNV-1a hash of the bits of
// x: it notices a file that another optimiser, or another version of it, has
// written. Values are the shortest decimals that give back the same bits.
//
// A line is written in one piece when its evaluation is done, and the file is
// synced after each generation: a killed process loses at most the line that
// it was writing, a machine that loses power at most a generation.
type Checkpoint struct {
	name     string
	file     *os.File
	records  map[place]record
	recorded int
	err      error // of an earlier write: what follows a torn line would be lost
}

type place struct{ generation, index int }

type record struct {
	position uint64
	result   result
	line     int
}

// ErrSettings is wrapped by every [SettingsError].
var ErrSettings = errors.New("the checkpoint was made with other settings")

// A SettingsError names the first setting, by name, in which the file and the
// caller differ. It wraps [ErrSettings].
type SettingsError struct {
	File            string
	Setting         string // a path such as optimiser.inertia or traces[2]
	Recorded, Given string // as JSON; empty where the setting is absent
}

func (e *SettingsError) Error() string {
	show := func(s string) string {
		if s == "" {
			return "absent"
		}
		return s
	}
	return fmt.Sprintf("%s:1: %v: %s is %s in the file, %s now", e.File, ErrSettings, e.Setting, show(e.Recorded), show(e.Given))
}

// Unwrap returns [ErrSettings].
func (e *SettingsError) Unwrap() error { return ErrSettings }

// OpenCheckpoint opens a checkpoint, or begins one when there is no such file.
// Settings are anything that encoding/json can write; they must equal those in
// the file, else the error is a [*SettingsError]. A last line without its
// newline is cut off. Any other line that is not as this package writes it is
// an error with file and line. Only one process may have a checkpoint open.
func OpenCheckpoint(path string, settings any) (*Checkpoint, error) {
	header, err := checkpointHeader(settings)
	if err != nil {
		return nil, fmt.Errorf("%s: settings: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{name: path, file: file}
	if err := lock(file); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: another run has it open: %w", path, err), file.Close())
	}
	if err := c.load(header); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return c, nil
}

// load reads the file, cuts off a torn line and leaves the file at its end.
func (c *Checkpoint) load(header []byte) error {
	data, err := io.ReadAll(c.file)
	if err != nil {
		return err
	}
	records, keep, err := parseCheckpoint(c.name, data, header)
	if err != nil {
		return err
	}
	c.records, c.recorded = records, len(records)
	if keep < len(data) {
		if err := c.file.Truncate(int64(keep)); err != nil {
			return err
		}
	}
	if _, err := c.file.Seek(int64(keep), io.SeekStart); err != nil {
		return err
	}
	if keep > 0 {
		return nil
	}
	if _, err := c.file.Write(header); err != nil {
		return err
	}
	return c.file.Sync()
}

// Recorded is the number of evaluations that the file held when it was opened.
func (c *Checkpoint) Recorded() int { return c.recorded }

// Close syncs and closes the file.
func (c *Checkpoint) Close() error { return errors.Join(c.file.Sync(), c.file.Close()) }

// lookup returns the recorded result of a task. Without a checkpoint there is
// none.
func (c *Checkpoint) lookup(t Task) (result, bool, error) {
	if c == nil {
		return result{}, false, nil
	}
	r, ok := c.records[place{t.Generation, t.Index}]
	if ok && r.position != hashPosition(t.X) {
		return result{}, false, fmt.Errorf("%s:%d: generation %d, index %d was evaluated at another position: the file comes from another optimiser or another version of it",
			c.name, r.line, t.Generation, t.Index)
	}
	return r.result, ok, nil
}

// record appends one line. It is not safe for concurrent use.
func (c *Checkpoint) record(t Task, r result) error {
	if c == nil || c.err != nil {
		return c.failed()
	}
	line := appendLine(nil, place{t.Generation, t.Index}, record{position: hashPosition(t.X), result: r})
	_, c.err = c.file.Write(line)
	return c.err
}

func (c *Checkpoint) sync() error {
	if c == nil || c.err != nil {
		return c.failed()
	}
	c.err = c.file.Sync()
	return c.err
}

func (c *Checkpoint) failed() error {
	if c == nil {
		return nil
	}
	return c.err
}

// parseCheckpoint reads the records of complete lines and says how many bytes
// to keep: 0 when the header is still to be written.
func parseCheckpoint(name string, data, header []byte) (records map[place]record, keep int, err error) {
	records = map[place]record{}
	keep = bytes.LastIndexByte(data, '\n') + 1
	if keep == 0 {
		// A kill while the header was being written. Anything else is not ours
		// to overwrite.
		if !bytes.HasPrefix(header, data) {
			return nil, 0, fmt.Errorf("%s:1: not the header of a checkpoint with these settings", name)
		}
		return records, 0, nil
	}
	lines := strings.Split(string(data[:keep-1]), "\n")
	if err := compareHeader(name, []byte(lines[0]), header); err != nil {
		return nil, 0, err
	}
	for i, line := range lines[1:] {
		at, r, err := parseLine(line)
		if err != nil {
			return nil, 0, fmt.Errorf("%s:%d: %w", name, i+2, err)
		}
		if first, ok := records[at]; ok {
			return nil, 0, fmt.Errorf("%s:%d: generation %d, index %d is on line %d already", name, i+2, at.generation, at.index, first.line)
		}
		r.line = i + 2
		records[at] = r
	}
	return records, keep, nil
}

// appendLine writes a record as one line with its newline.
func appendLine(b []byte, at place, r record) []byte {
	b = fmt.Appendf(b, "%d %d %016x", at.generation, at.index, r.position)
	for _, v := range append([]float64{r.result.value}, r.result.objectives...) {
		b = append(b, ' ')
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
	}
	return append(b, '\n')
}

// parseLine is the inverse of appendLine, without the newline. Every spelling
// but that of appendLine is refused.
func parseLine(line string) (place, record, error) {
	bad := func(what string) (place, record, error) {
		return place{}, record{}, fmt.Errorf("%s in %q", what, line)
	}
	fields := strings.Split(line, " ")
	if len(fields) < 4 {
		return bad("fewer than 4 fields")
	}
	var at place
	var r record
	var err error
	if at.generation, err = strconv.Atoi(fields[0]); err != nil || at.generation < 0 {
		return bad("no generation")
	}
	if at.index, err = strconv.Atoi(fields[1]); err != nil || at.index < 0 {
		return bad("no index")
	}
	if r.position, err = strconv.ParseUint(fields[2], 16, 64); err != nil {
		return bad("no hash of a position")
	}
	for i, field := range fields[3:] {
		v, err := strconv.ParseFloat(field, 64)
		switch {
		case err != nil:
			return bad("no number")
		case i == 0:
			r.result.value = v
		default:
			r.result.objectives = append(r.result.objectives, v)
		}
	}
	if string(appendLine(nil, at, r)) != line+"\n" {
		return bad("unusual spelling")
	}
	return at, r, nil
}

// hashPosition is FNV-1a over the bits of x, lowest byte first.
func hashPosition(x []float64) uint64 {
	h := fnv.New64a()
	for _, v := range x {
		bits := math.Float64bits(v)
		var b [8]byte
		for k := range b {
			b[k] = byte(bits >> (8 * k))
		}
		h.Write(b[:]) // never fails
	}
	return h.Sum64()
}

const (
	checkpointFormat  = "sigma-swarm"
	checkpointVersion = 1
)

// checkpointHeader is the first line, with its newline: names sorted and no
// space, so that equal settings are equal bytes.
func checkpointHeader(settings any) ([]byte, error) {
	given, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	generic, err := decodeJSON(given)
	if err != nil {
		return nil, err
	}
	sorted, err := json.Marshal(generic)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "{\"checkpoint\":%q,\"version\":%d,\"settings\":%s}\n", checkpointFormat, checkpointVersion, sorted), nil
}

// compareHeader compares the file's first line with the header of the caller.
func compareHeader(name string, line, header []byte) error {
	if bytes.Equal(line, bytes.TrimSuffix(header, []byte("\n"))) {
		return nil
	}
	recorded, err := decodeJSON(line)
	if err != nil {
		return fmt.Errorf("%s:1: not the header of a checkpoint: %w", name, err)
	}
	given, err := decodeJSON(header)
	if err != nil {
		return err
	}
	was, ok := recorded.(map[string]any)
	if !ok || was["checkpoint"] != checkpointFormat {
		return fmt.Errorf("%s:1: not the header of a checkpoint", name)
	}
	now := given.(map[string]any)
	if was["version"] != now["version"] {
		return fmt.Errorf("%s:1: checkpoint version %v, not %d", name, was["version"], checkpointVersion)
	}
	if e := firstDifference("", was["settings"], now["settings"]); e != nil {
		e.File = name
		return e
	}
	return fmt.Errorf("%s:1: unusual spelling of the header", name)
}

// firstDifference walks two JSON values by sorted names; nil when they agree.
func firstDifference(at string, recorded, given any) *SettingsError {
	if was, ok := recorded.(map[string]any); ok {
		if now, ok := given.(map[string]any); ok {
			return firstDifferentField(at, was, now)
		}
	}
	if was, ok := recorded.([]any); ok {
		if now, ok := given.([]any); ok {
			return firstDifferentElement(at, was, now)
		}
	}
	a, b := showJSON(recorded), showJSON(given)
	if a == b {
		return nil
	}
	if at == "" {
		at = "settings"
	}
	return &SettingsError{Setting: at, Recorded: a, Given: b}
}

func firstDifferentField(at string, recorded, given map[string]any) *SettingsError {
	var names []string
	for name := range recorded {
		names = append(names, name)
	}
	for name := range given {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		path := name
		if at != "" {
			path = at + "." + name
		}
		was, inFile := recorded[name]
		now, inCall := given[name]
		switch {
		case !inFile:
			return &SettingsError{Setting: path, Given: showJSON(now)}
		case !inCall:
			return &SettingsError{Setting: path, Recorded: showJSON(was)}
		}
		if e := firstDifference(path, was, now); e != nil {
			return e
		}
	}
	return nil
}

func firstDifferentElement(at string, recorded, given []any) *SettingsError {
	for i := range max(len(recorded), len(given)) {
		path := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case i >= len(recorded):
			return &SettingsError{Setting: path, Given: showJSON(given[i])}
		case i >= len(given):
			return &SettingsError{Setting: path, Recorded: showJSON(recorded[i])}
		}
		if e := firstDifference(path, recorded[i], given[i]); e != nil {
			return e
		}
	}
	return nil
}

// decodeJSON keeps numbers as they are spelled.
func decodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// showJSON writes a value that decodeJSON returned, which cannot fail.
func showJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("swarm: %v: %v", v, err))
	}
	return string(b)
}
