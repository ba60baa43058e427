// One server process, killed and started again while clients ask.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// How long a start may take.
const patience = time.Minute

type server struct {
	binary, folder, address string
	log                     *os.File
	mutex                   sync.Mutex
	process                 *exec.Cmd
	kills                   int
}

const token = "linearizability-token"

func newServer(binary, folder string, workers int) (*server, error) {
	// The same port after each start, so that clients find it.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("[listen]\nhttp = %q\nbinary = \"off\"\nmqtt = \"off\"\n\n[data]\nshards = %d\n\n"+
		"[limits]\nworkers = %d\n\n[[service]]\nname = \"clients\"\ntoken = %q\ngrants = [\"*\"]\n",
		address, workers, workers, token)
	if err := os.WriteFile(filepath.Join(folder, "config.toml"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(folder, "server.log"))
	if err != nil {
		return nil, err
	}
	return &server{binary: binary, folder: folder, address: address, log: log}, nil
}

func (s *server) start() error {
	process := exec.Command(s.binary, "serve", "--config", filepath.Join(s.folder, "config.toml"),
		"--data", filepath.Join(s.folder, "data"))
	process.Stderr, process.Stdout = s.log, s.log
	if err := process.Start(); err != nil {
		return err
	}
	s.mutex.Lock()
	s.process = process
	s.mutex.Unlock()
	return s.await()
}

// Waits until it serves.
func (s *server) await() error {
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(5 * time.Millisecond) {
		answer, err := http.Get("http://" + s.address + "/healthz")
		if err != nil {
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("the server does not serve; see %s", s.log.Name())
}

// Ends the process as a power cut would: no handler runs.
func (s *server) kill() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
		s.kills++
	}
}
