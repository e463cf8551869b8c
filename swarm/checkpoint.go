package swarm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

// A Checkpoint is an append-only file of evaluations. Nothing of the optimiser
// is stored: a resumed run is the same seeded run from the beginning, whose
// evaluations are answered from the file until it is used up. So a kill at any
// byte loses no more than the evaluations that were under way.
//
// The first line holds the caller's settings, each later line one evaluation:
//
//	{"checkpoint":"sigma-swarm","version":1,"settings":{…}}
//	generation index position value [objectives…]
//
// separated by single blanks. position is the 64-bit FNV-1a hash of the bits of
// x: it detects a file that another optimiser, or another version of it, has
// written. Values are the shortest decimals that give back the same bits.
//
// A line is written in one piece when its evaluation is done, and the file is
// synced after each generation: a killed process loses at most the line that
// it was writing, a machine that loses power at most a generation.
type Checkpoint struct {
	log      *durable.AppendLog[string]
	header   string
	records  map[place]record
	recorded int
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
	Setting         string // a path such as optimiser.inertia or traces[2]
	Recorded, Given string // as JSON; empty where the setting is absent
}

func (e *SettingsError) Error() string {
	return fmt.Sprintf("%v: %s is %s in the file, %s now", ErrSettings, e.Setting, cmp.Or(e.Recorded, "absent"), cmp.Or(e.Given, "absent"))
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
	c := &Checkpoint{header: header, records: map[place]record{}}
	c.log, err = durable.OpenLog(path, durable.Format[string]{
		Encode: func(b *bytes.Buffer, line string) error {
			_, err := b.WriteString(line)
			return err
		},
		Decode: func(line []byte) (string, error) { return string(line), nil },
		// A kill while the header was being written. Anything else is not ours to overwrite.
		Mine: func(text []byte) bool { return strings.HasPrefix(header, string(text)) },
	}, c.take)
	if err != nil {
		return nil, err
	}
	c.recorded = len(c.records)
	if c.log.Size() == 0 {
		if err := c.log.AppendSync(header); err != nil {
			return nil, errors.Join(err, c.log.Close())
		}
	}
	return c, nil
}

// take takes in a line of the file.
func (c *Checkpoint) take(number int, line string) error {
	if number == 1 {
		return compareHeader(line, c.header)
	}
	at, r, err := parseLine(line)
	if err != nil {
		return err
	}
	if first, ok := c.records[at]; ok {
		return fmt.Errorf("generation %d, index %d is on line %d already", at.generation, at.index, first.line)
	}
	r.line = number
	c.records[at] = r
	return nil
}

// Recorded is the number of evaluations that the file held when it was opened.
func (c *Checkpoint) Recorded() int { return c.recorded }

// Close syncs and closes the file.
func (c *Checkpoint) Close() error { return errors.Join(c.log.Sync(), c.log.Close()) }

// lookup returns the recorded result of a task. Without a checkpoint there is no
// result.
func (c *Checkpoint) lookup(t Task) (result, bool, error) {
	if c == nil {
		return result{}, false, nil
	}
	r, ok := c.records[place{t.Generation, t.Index}]
	if ok && r.position != hashPosition(t.X) {
		return result{}, false, fmt.Errorf("%s:%d: generation %d, index %d was evaluated at another position: the file comes from another optimiser or another version of it",
			c.log.Path(), r.line, t.Generation, t.Index)
	}
	return r.result, ok, nil
}

// record appends one line. It is not safe for concurrent use.
func (c *Checkpoint) record(t Task, r result) error {
	if c == nil {
		return nil
	}
	return c.log.Append(string(appendLine(nil, place{t.Generation, t.Index}, record{position: hashPosition(t.X), result: r})))
}

func (c *Checkpoint) sync() error {
	if c == nil {
		return nil
	}
	return c.log.Sync()
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
func checkpointHeader(settings any) (string, error) {
	given, err := json.Marshal(settings)
	if err != nil {
		return "", err
	}
	generic, err := decodeJSON(given)
	if err != nil {
		return "", err
	}
	sorted, err := json.Marshal(generic)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("{\"checkpoint\":%q,\"version\":%d,\"settings\":%s}\n", checkpointFormat, checkpointVersion, sorted), nil
}

// compareHeader compares the file's first line with the header of the caller.
func compareHeader(line, header string) error {
	if line+"\n" == header {
		return nil
	}
	recorded, err := decodeJSON([]byte(line))
	if err != nil {
		return fmt.Errorf("not the header of a checkpoint: %w", err)
	}
	given, err := decodeJSON([]byte(header))
	if err != nil {
		return err
	}
	was, ok := recorded.(map[string]any)
	if !ok || was["checkpoint"] != checkpointFormat {
		return errors.New("not the header of a checkpoint")
	}
	now := given.(map[string]any)
	if was["version"] != now["version"] {
		return fmt.Errorf("checkpoint version %v, not %d", was["version"], checkpointVersion)
	}
	if e := firstDifference("", was["settings"], now["settings"]); e != nil {
		return e
	}
	return errors.New("unusual spelling of the header")
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
	at = cmp.Or(at, "settings")
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
