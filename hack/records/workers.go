package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

var workers = section{
	name:  "workers",
	title: "Workers on two cores, and killed ones",
	about: `One training on four instances of large at full scale (24 particles, 96 evaluations of 16 replays), in one
process and by one or two workers of a trainer that leaves all to them; each the faster of two turns, interleaved. Where the
machine has other work, two workers cannot be twice as fast; so the same is asked of evaluations that wait 50 ms and
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
	b.line(line{
		work: "large, 1 → 2 workers", figure: "times as fast", value: wall[1] / wall[2],
		peers: fmt.Sprintf("two processes that know nothing of each other %.2f; one process %.1f s, 1 worker %.1f s, 2 workers %.1f s",
			ceiling, wall[0], wall[1], wall[2]),
		must: atLeast(1.7), aim: atLeast(1.9),
	})
	b.line(line{
		work: "large, 1 worker", figure: "share of the CPU seconds that trainer, server and worker add",
		value: 1 - cpu[0]/cpu[1], format: "%.3f",
		peers: fmt.Sprintf("one process %.1f CPU-s, 1 worker %.1f, 2 workers %.1f", cpu[0], cpu[1], cpu[2]),
	})
	b.line(line{
		work: "large, 1 and 2 workers", figure: "trainings with the bytes of one process", value: same, format: "%.0f", must: atLeast(2),
	})
	if runtime.NumCPU() != 2 {
		b.note("The machine has %d cores.", runtime.NumCPU())
	}
	if err := b.waiting(); err != nil {
		return err
	}
	return b.kills(10)
}

// atOnce runs two trainings at the same time and says how much more that is than one
// in the seconds alone: what the machine's cores give at that moment.
func (b *bench) atOnce(args []string, alone float64) (float64, error) {
	var list []*exec.Cmd
	begin := time.Now()
	for i := range 2 {
		cmd := exec.CommandContext(b.ctx, "bin/sigma", append(args, "--workers", "1", "--out", b.path(fmt.Sprintf("at-once-%d.yaml", i)))...)
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		list = append(list, cmd)
	}
	for _, cmd := range list {
		if err := cmd.Wait(); err != nil {
			return 0, err
		}
	}
	return 2 * alone / time.Since(begin).Seconds(), nil
}

// train runs a training with n workers, or with none in one process, and
// returns the seconds that it took and the CPU seconds of all its processes.
func (b *bench) train(args []string, n int) (wall, cpu float64, err error) {
	if n == 0 {
		begin := time.Now()
		_, cpu, err := b.sigma(append(args, "--workers", "1")...)
		return time.Since(begin).Seconds(), cpu, err
	}
	token := b.path("token")
	trainer := exec.CommandContext(b.ctx, "bin/sigma", append(args, "--workers", "0", "--listen", "127.0.0.1:0", "--nats-token-file", token)...)
	b.commands = append(b.commands, strings.Join(trainer.Args, " "), fmt.Sprintf("bin/sigma worker --nats URL --nats-token-file %s --workers 1     # %d of them", token, n))
	stderr, err := trainer.StderrPipe()
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := trainer.Start(); err != nil {
		return 0, 0, err
	}
	url := ""
	lines := bufio.NewScanner(stderr)
	for url == "" && lines.Scan() {
		if _, after, ok := strings.Cut(lines.Text(), "sigma worker --nats "); ok {
			url = after
		}
	}
	var list []*exec.Cmd
	for range n {
		w := exec.CommandContext(b.ctx, "bin/sigma", "worker", "--nats", url, "--nats-token-file", token, "--workers", "1")
		w.Env = append(os.Environ(), "GOMAXPROCS=1")
		if err := w.Start(); err != nil {
			return 0, 0, err
		}
		list = append(list, w)
	}
	for lines.Scan() { // until the trainer ends
	}
	err = trainer.Wait()
	wall = time.Since(begin).Seconds()
	for _, cmd := range append(list, trainer) {
		if cmd != trainer {
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait() // interrupted: 130
		}
		cpu += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	b.seconds += cpu
	return wall, cpu, err
}

// test runs a test, notes the command and returns what it printed.
func (b *bench) test(pkg, name string, env ...string) (string, error) {
	cmd := exec.CommandContext(b.ctx, "go", "test", "-count=1", "-v", "-run", "^"+name+"$", pkg)
	cmd.Env = append(os.Environ(), env...)
	b.commands = append(b.commands, strings.Join(append(env, cmd.Args...), " "))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil {
		b.seconds += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	return string(out), err
}

var faster = regexp.MustCompile(`times as fast: ([0-9.]+)`)

// waiting compares one worker with two where evaluations take no CPU.
func (b *bench) waiting() error {
	out, err := b.test("./internal/train/remote", "TestTwoWorkersAreFaster")
	m := faster.FindStringSubmatch(out)
	if m == nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	times, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return err
	}
	b.line(line{work: "evaluations that wait, 1 → 2 workers", figure: "times as fast", value: times, must: atLeast(1.7), aim: atLeast(1.9)})
	return nil
}

var killed = regexp.MustCompile(`killed:(.*) evaluations`)

// kills runs the test that kills processes n times.
func (b *bench) kills(n int) error {
	out, err := b.test("./cmd/sigma", "TestKills", fmt.Sprintf("SIGMA_KILLS=%d", n))
	survived := float64(n)
	if err != nil {
		survived = 0
		b.note("The test failed: `%s`.", strings.TrimSpace(out))
	} else if m := killed.FindStringSubmatch(out); m != nil {
		b.note("Killed, at the number of evaluations that were in the checkpoint:%s.", m[1])
	}
	b.line(line{
		work: "small, 2 workers, server elsewhere", figure: "kills after which the training ended with the bytes of one process",
		value: survived, format: "%.0f", must: atLeast(float64(n)),
	})
	return nil
}
