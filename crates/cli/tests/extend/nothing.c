/* A library that has nothing. */
int nothing(void)
{
	return 0;
}
