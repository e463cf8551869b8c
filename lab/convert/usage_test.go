package convert

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// usedFiles writes files of a set into a folder.
func usedFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

func one(t *testing.T, format, dir string) (*trace.Trace, error) {
	t.Helper()
	var got *trace.Trace
	err := Convert(format, []string{dir}, Defaults(), func(tr *trace.Trace, _ int) error { got = tr; return nil })
	return got, err
}

func TestGWA(t *testing.T) {
	month := strings.Repeat(",100", 288) + strings.Repeat(",200", 288)
	dir := usedFiles(t, map[string]string{
		"gwa_t12_rnd_vms.csv":            "vm,cores,provisioned_mhz,provisioned_memory_mib\n1,2,5852,8192\n2,1,2926,3976\n3,0,0,0\n",
		"gwa_t12_rnd_cpu_2013-07.csv":    "1" + month + "\n2" + strings.Repeat(",", 300) + "5\n",
		"gwa_t12_rnd_memory_2013-07.csv": "1,4,,8\n",
		"gwa_t12_rnd_cpu_2013-08.csv":    "1,7\n3,9\n",
	})
	tr, err := one(t, "gwa-t-12", dir)
	require.NoError(t, err)
	assert.Equal(t, []int64{5852, 8192 << 20}, tr.Instance.Apps[0].Demand)
	assert.Equal(t, []int64{104_000, 320 << 30}, tr.Instance.Machines[0].Capacity)
	const july = 1372636800 // a Monday
	assert.Equal(t, []float64{july, july + 86400}, []float64{tr.Events[0].Time, tr.Events[1].Time}, "vm-2 has its first sample on the second day")
	u, err := tr.Usage()
	require.NoError(t, err)
	require.Len(t, tr.Instance.Apps, 3)
	assert.Equal(t, []int64{90, 0}, tr.Instance.Apps[2].Demand, "vm-3 provisions nothing, and used up to 9 × 10 MHz")
	assert.Equal(t, map[string]any{"vm-3": []any{"0", "0"}}, tr.Source["withoutRequest"])
	cpu := &u.Series[0]
	assert.Equal(t, float32(1), cpu.At(july+300), "100 × 10 MHz")
	assert.Equal(t, float32(2), cpu.At(july+86400))
	assert.True(t, math.IsNaN(float64(cpu.At(july+3*86400))))
	assert.InDelta(t, .07, cpu.At(july+31*86400), 1e-6)
	assert.Equal(t, []float32{64 << 20, float32(math.NaN()), 128 << 20}[0], u.Series[1].Values[0])
	require.NoError(t, tr.Write(filepath.Join(t.TempDir(), "t")))

	for file, text := range map[string]string{
		"gwa_t12_rnd_cpu_2013-07.csv": "4,1\n",
		"gwa_t12_rnd_cpu_2013-08.csv": "1,x\n",
		"gwa_t12_rnd_vms.csv":         "vm,provisioned_mhz,provisioned_memory_mib\n1,a,2\n",
	} {
		old, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
		_, err = one(t, "gwa-t-12", dir)
		require.ErrorContains(t, err, file+":", file)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), old, 0o644))
	}
}

// The time of a trace begins with the earliest month of any dimension; gaps are named.
func TestGWAMonths(t *testing.T) {
	files := map[string]string{
		"gwa_t12_rnd_vms.csv":            "vm,provisioned_mhz,provisioned_memory_mib\n1,5852,8192\n",
		"gwa_t12_rnd_cpu_2013-08.csv":    "1,7\n",
		"gwa_t12_rnd_memory_2013-07.csv": "1,4\n",
		"gwa_t12_rnd_memory_2013-08.csv": "1,5\n",
		"gwa_t12_rnd_cpu_2013-10.csv":    "1,8\n",
	}
	opt, notes := Defaults(), []string{}
	opt.Warn = func(text string) { notes = append(notes, text) }
	var tr *trace.Trace
	err := Convert("gwa-t-12", []string{usedFiles(t, files)}, opt, func(one *trace.Trace, _ int) error { tr = one; return nil })
	require.NoError(t, err)
	u, err := tr.Usage()
	require.NoError(t, err)
	const july, august, october = 1372636800, 1375315200, 1380585600
	assert.InDelta(t, .07, u.Series[0].At(august), 1e-6)
	assert.InDelta(t, .08, u.Series[0].At(october), 1e-6)
	assert.Equal(t, []float32{64 << 20, 80 << 20}, []float32{u.Series[1].At(july), u.Series[1].At(august)})
	assert.Equal(t, []string{
		"2013-07 has memory without cpu",
		"no file has 2013-09, between months that have one: nothing is judged or fitted there",
		"2013-10 has cpu without memory",
	}, notes)
}

func TestPlanetLab(t *testing.T) {
	files := map[string]string{}
	line := func(name, v string) string { return name + strings.Repeat(","+v, 288) + "\n" }
	for i, name := range []string{"01", "02", "03", "04", "05", "06", "07"} {
		text := line("always", []string{"10", "20", "30", "40", "50", "60", "70"}[i])
		if i < 5 {
			text += line("never-later", "5")
		}
		if i == 0 || i == 6 {
			text += line("too-few", "5")
		}
		if i == 1 || i == 3 || i == 5 {
			text += line("at-times", "50")
		}
		files["planetlab_cpu_201103"+name+".csv"] = text
	}
	tr, err := one(t, "planetlab", usedFiles(t, files))
	require.NoError(t, err)
	require.Len(t, tr.Instance.Apps, 2)
	u, err := tr.Usage()
	require.NoError(t, err)
	always, times := &u.Series[0], &u.Series[1]
	assert.Equal(t, []float64{0, 7 * 86400}, []float64{times.Start, times.End()})
	assert.InDelta(t, .6, always.At(5*86400), 1e-6)
	assert.InDelta(t, .5, times.At(5*86400), 1e-6)
	assert.True(t, math.IsNaN(float64(times.At(4*86400))))
	files["planetlab_cpu_20110307.csv"] = "always,1\n"
	_, err = one(t, "planetlab", usedFiles(t, files))
	require.ErrorContains(t, err, "planetlab_cpu_20110307.csv:1: 2 fields")
	delete(files, "planetlab_cpu_20110307.csv")
	delete(files, "planetlab_cpu_20110306.csv")
	_, err = one(t, "planetlab", usedFiles(t, files))
	assert.ErrorContains(t, err, "want more than 5")
}
