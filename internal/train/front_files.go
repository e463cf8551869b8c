package train

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/durable"
)

const (
	frontTable   = "front.csv"
	frontPicture = "front.svg"
)

// ReplaceableFront refuses a folder that holds anything but an earlier front. A
// folder that does not exist may be made.
func ReplaceableFront(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: with --objectives it is the name of a folder: %w", dir, err)
	}
	earlier := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == frontTable })
	for _, e := range entries {
		ours := e.Name() == frontTable || e.Name() == frontPicture || filepath.Ext(e.Name()) == ".yaml"
		if !earlier || !ours || e.IsDir() {
			return fmt.Errorf("%s is a folder with %s in it, which is no earlier front: take another one", dir, e.Name())
		}
	}
	return nil
}

// Write writes up to points policies of the front (see [Front.Choose]) into a folder,
// with a table of all of them and a picture. The table has the objectives of the chosen
// ones on the traces to validate on, if there are any. An earlier front is replaced
// when all is written.
func (f *Front) Write(ctx context.Context, dir string, points int, validate []*trace.Trace) error {
	choices := f.Choose(points)
	chosen := make([]int, len(choices))
	for i, c := range choices {
		chosen[i] = c.Point
	}
	var heldOut [][]float64
	if len(validate) > 0 {
		var err error
		if heldOut, err = f.On(ctx, validate, chosen); err != nil {
			return err
		}
	}
	files := map[string][]byte{}
	for _, c := range choices {
		object := *f.Points[c.Point].Object
		object.Metadata.Name = c.Name
		files[c.Name+".yaml"] = object.Bytes()
	}
	var table, picture bytes.Buffer
	if err := errors.Join(f.csv(&table, choices, heldOut), f.svg(&picture, choices)); err != nil {
		return err
	}
	files[frontTable], files[frontPicture] = table.Bytes(), picture.Bytes()
	return durable.WriteDir(dir, nil, func(dir string) error {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}

// csv writes a line for each policy of the front, with its weights and parameters.
func (f *Front) csv(w io.Writer, choices []Choice, heldOut [][]float64) error {
	files, measured := map[int][]string{}, map[int][]float64{}
	for i, c := range choices {
		files[c.Point] = append(files[c.Point], c.Name+".yaml")
		if heldOut != nil {
			measured[c.Point] = heldOut[i]
		}
	}
	out := csv.NewWriter(w)
	spec := f.Points[0].Object.Spec
	var parameters []string
	for name := range spec.Parameters {
		parameters = append(parameters, name)
	}
	slices.Sort(parameters)
	head := append([]string{"policy"}, f.Objectives...)
	if heldOut != nil {
		for _, name := range f.Objectives {
			head = append(head, "validate:"+name)
		}
	}
	head = append(append(head, spec.Features...), parameters...)
	if err := out.Write(head); err != nil {
		return err
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	for i, p := range f.Points {
		line := []string{strings.Join(files[i], " ")}
		for _, v := range p.Objectives {
			line = append(line, number(v))
		}
		for k := range f.Objectives {
			switch v := measured[i]; {
			case heldOut == nil:
			case v == nil:
				line = append(line, "")
			default:
				line = append(line, number(v[k]))
			}
		}
		for _, v := range p.Object.Spec.Weights {
			line = append(line, number(v))
		}
		for _, name := range parameters {
			line = append(line, number(p.Object.Spec.Parameters[name]))
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
