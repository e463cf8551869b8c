package placement

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/lab/records"
)

var workers = Section{
	Name:  "workers",
	title: "Workers on two cores, and killed ones",
	about: `One training on four instances of large at full scale (24 particles, 96 evaluations of 16 replays), in one
process and by one or two workers of a trainer that evaluates nothing itself; each figure is the faster of two turns, interleaved. On a
shared machine two workers cannot be twice as fast; so the same is measured with evaluations that wait 50 ms and
compute nothing. Then
a training on three instances of small, during which a worker, the server and the trainer are killed in turn, without
warning, at random moments.`,
	run: runWorkers,
}

func runWorkers(b *bench) error {
	dir, err := b.generate("large", "large", 1, 4)
	if err != nil {
		return err
	}
	train := []string{"train", "--trace", dir, "--orders", "4", "--particles", "24", "--evaluations", "96", "--quiet", "--out", b.path("policy.yaml")}
	const never = 1e9
	var cpu [3]float64 // of the training by n workers; 0 = in one process
	wall := [3]float64{never, never, never}
	var bytesOf [3][]byte
	for range 2 {
		for n := range wall {
			w, c, err := b.train(train, n)
			if err != nil {
				return err
			}
			if w < wall[n] {
				wall[n], cpu[n] = w, c
			}
			if bytesOf[n], err = os.ReadFile(b.path("policy.yaml")); err != nil {
				return err
			}
		}
	}
	same := 0.
	for _, n := range []int{1, 2} {
		if bytes.Equal(bytesOf[0], bytesOf[n]) {
			same++
		}
	}
	ceiling, err := b.atOnce(train, wall[0])
	if err != nil {
		return err
	}
	b.line(records.Line{
		Work: "large, 1 → 2 workers", Figure: "times as fast", Value: wall[1] / wall[2],
		Peers: fmt.Sprintf("two processes that know nothing of each other %.2f; one process %.1f s, 1 worker %.1f s, 2 workers %.1f s",
			ceiling, wall[0], wall[1], wall[2]),
		Must: records.AtLeast(1.7), Aim: records.AtLeast(1.9),
	})
	b.line(records.Line{
		Work: "large, 1 worker", Figure: "share of the CPU seconds that trainer, server and worker add",
		Value: 1 - cpu[0]/cpu[1], Format: "%.3f",
		Peers: fmt.Sprintf("one process %.1f CPU-s, 1 worker %.1f, 2 workers %.1f", cpu[0], cpu[1], cpu[2]),
	})
	b.line(records.Line{
		Work: "large, 1 and 2 workers", Figure: "trainings with the bytes of one process", Value: same, Format: "%.0f", Must: records.AtLeast(2),
	})
	if runtime.NumCPU() != 2 {
		b.note("The machine has %d cores.", runtime.NumCPU())
	}
	if err := b.waiting(); err != nil {
		return err
	}
	return b.kills(10)
}

// oneCore is the environment of a process that uses one core.
var oneCore = []string{"GOMAXPROCS=1"}

// atOnce runs two trainings at the same time and returns how many times faster that is
// than one after the other, each in the given seconds: what the machine's cores give at
// that moment.
func (b *bench) atOnce(args []string, alone float64) (float64, error) {
	var list []*records.Process
	begin := b.now()
	for i := range 2 {
		c := records.Sigma(append(args, "--workers", "1", "--out", b.path(fmt.Sprintf("at-once-%d.yaml", i)))...)
		c.Env = oneCore
		p, err := b.runner.Start(b.ctx, c)
		if err != nil {
			return 0, err
		}
		list = append(list, p)
	}
	for _, p := range list {
		if _, err := p.Wait(); err != nil {
			return 0, err
		}
	}
	return 2 * alone / b.now().Sub(begin).Seconds(), nil
}

// train runs a training with n workers, or with none in one process, and
// returns the seconds that it took and the CPU seconds of all its processes.
func (b *bench) train(args []string, n int) (wall, cpu float64, err error) {
	begin := b.now()
	if n == 0 {
		_, cpu, err := b.sigma(append(args, "--workers", "1")...)
		return b.now().Sub(begin).Seconds(), cpu, err
	}
	token := b.path("token")
	c := records.Sigma(append(args, "--workers", "0", "--listen", "127.0.0.1:0", "--nats-token-file", token)...)
	stderr, writer := io.Pipe()
	c.Stderr = writer
	trainer, err := b.runner.Start(b.ctx, c)
	if err != nil {
		return 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { // the pipe's other end
		seconds, err := trainer.Wait()
		cpu = seconds
		ended <- err
		_ = writer.Close()
	}()
	url := ""
	lines := bufio.NewScanner(stderr)
	for url == "" && lines.Scan() {
		if _, after, ok := strings.Cut(lines.Text(), "sigma worker --nats "); ok {
			url, _, _ = strings.Cut(after, " ")
		}
	}
	var list []*records.Process
	for range n {
		c := records.Sigma("worker", "--nats", url, "--nats-token-file", token, "--workers", "1")
		c.Env, c.Note = oneCore, fmt.Sprintf("bin/sigma worker --nats URL --nats-token-file %s --workers 1", token)
		w, err := b.runner.Start(b.ctx, c)
		if err != nil {
			return 0, 0, err
		}
		list = append(list, w)
	}
	for lines.Scan() { // until the trainer ends
	}
	err = <-ended
	wall = b.now().Sub(begin).Seconds()
	for _, w := range list {
		cpu += w.Interrupt()
	}
	return wall, cpu, err
}

// test runs a test and returns what it printed.
func (b *bench) test(pkg, name string, env ...string) (string, error) {
	out, _, err := b.runner.Run(b.ctx, records.Command{
		Program: "go", Args: []string{"test", "-count=1", "-v", "-run", "^" + name + "$", pkg}, Env: env,
	})
	return string(out), err
}

var faster = regexp.MustCompile(`times as fast: ([0-9.]+)`)

// waiting compares one worker with two where evaluations take no CPU.
func (b *bench) waiting() error {
	out, err := b.test("./internal/train/remote", "TestTwoWorkersAreFaster")
	if err != nil {
		return err
	}
	m := faster.FindStringSubmatch(out)
	if m == nil {
		return fmt.Errorf("the test printed no figure: %s", out)
	}
	times, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return err
	}
	b.line(records.Line{Work: "evaluations that wait, 1 → 2 workers", Figure: "times as fast", Value: times, Must: records.AtLeast(1.7), Aim: records.AtLeast(1.9)})
	return nil
}

var killed = regexp.MustCompile(`killed:(.*) evaluations`)

// kills runs the test that kills processes n times; it fails where the training does
// not end with the bytes of one process.
func (b *bench) kills(n int) error {
	out, err := b.test("./internal/cli", "TestKills", fmt.Sprintf("SIGMA_KILLS=%d", n))
	if err != nil {
		return err
	}
	if m := killed.FindStringSubmatch(out); m != nil {
		b.note("Killed, at the number of evaluations that were in the checkpoint:%s.", m[1])
	}
	b.line(records.Line{
		Work: "small, 2 workers, server elsewhere", Figure: "kills after which the training ended with the bytes of one process",
		Value: float64(n), Format: "%.0f", Must: records.AtLeast(float64(n)),
	})
	return nil
}
