package train

import (
	"encoding/csv"
	"errors"
	"os"
	"strconv"

	"github.com/sigma-scheduler/sigma/swarm"
)

// A GenerationLog is a CSV file with a line for each generation, begun with the first.
type GenerationLog struct {
	Path    string // "" = no log
	Replays int    // per evaluation
	file    *os.File
	csv     *csv.Writer
	err     error
}

// Write adds a generation. Errors are returned by Close.
func (l *GenerationLog) Write(s swarm.Stats) {
	if l.Path == "" || l.err != nil {
		return
	}
	if l.file == nil {
		if l.file, l.err = os.Create(l.Path); l.err != nil {
			return
		}
		l.csv = csv.NewWriter(l.file)
		l.err = l.csv.Write([]string{"generation", "evaluations", "replays", "global_best", "mean_velocity", "diversity"})
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 9, 64) }
	line := []string{
		strconv.Itoa(s.Generation), strconv.Itoa(s.Evaluations), strconv.Itoa(s.Evaluations * l.Replays),
		number(s.GlobalBest), number(s.MeanVelocity), number(s.Diversity),
	}
	l.err = errors.Join(l.err, l.csv.Write(line))
	l.csv.Flush() // the file can be watched
	l.err = errors.Join(l.err, l.csv.Error())
}

// Close reports the first error. It may be called again.
func (l *GenerationLog) Close() error {
	if l.file != nil {
		l.err = errors.Join(l.err, l.file.Close())
		l.file = nil
	}
	return l.err
}
