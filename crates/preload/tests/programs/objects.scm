;; Makes vectors in a vector and by name. Reads all in order, then some at random.
(define count (string->number (cadr (command-line))))
(define nodes (make-vector count #f))
(define table (make-hash-table count))
(do ((at 0 (+ at 1))) ((= at count))
  (let ((node (vector at (number->string at) (if (> at 0) (vector-ref nodes (- at 1)) #f))))
    (vector-set! nodes at node)
    (hash-set! table (vector-ref node 1) node)))
(define (key node) (if node (vector-ref node 0) 0))
(define sum
  (let next ((at 0) (sum 0))
    (if (= at count)
        sum
        (let ((node (vector-ref nodes at)))
          (next (+ at 1) (+ sum (- (key node) (key (vector-ref node 2)))))))))
(define found
  (let next ((walk 0) (seed 1) (found 0))
    (if (= walk 1000)
        found
        (let* ((seed (modulo (* seed 48271) 2147483647))
               (name (number->string (modulo seed count))))
          (next (+ walk 1) seed (modulo (+ (* found 31) (key (hash-ref table name))) 1000003))))))
(format #t "in order ~a at random ~a~%" sum found)
