// A static program for an image of nothing else.
package main

import (
	"fmt"
	"os"
	"sync"
)

func main() {
	var group sync.WaitGroup
	var mutex sync.Mutex
	sum := 0
	for number := 0; number < 100; number++ {
		group.Add(1)
		go func(number int) {
			defer group.Done()
			mutex.Lock()
			sum += number
			mutex.Unlock()
		}(number)
	}
	group.Wait()
	_, err := os.ReadFile("/etc/none")
	fmt.Println(sum, os.Args[1:], os.Getenv("GREETING"), err)
	os.Exit(len(os.Args))
}
